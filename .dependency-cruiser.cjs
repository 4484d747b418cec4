/**
 * The floors: which folder of `src` may import which. Type-only imports count.
 *
 * To add a folder, add its line to `floors`; a folder without a line fails the check.
 */
const base = ['host', 'diagnostics', 'types']
const ground = [...base, 'scalar', 'affine']
const upToGraph = [...ground, 'graph']
const upToCompose = [...upToGraph, 'compose']
const upToKernel = [...ground, 'kernel']
const upToMachine = [...upToKernel, 'target']
/** What all rooms of the schedules know. */
const scheduling = [...upToMachine, 'schedule/price.ts', 'schedule/debug.ts', 'schedule/text.ts']
/** What all rooms of the planner know. */
const planned = [...upToGraph, 'kernel', 'target', 'schedule', 'plan/refusal.ts', 'plan/plan.ts']
const upToPlan = [...upToGraph, 'kernel', 'target', 'schedule', 'plan']

/** Report data: plain records that the passes fill in and `report` renders. */
const reportData = 'report/data.ts'

/** Making folders, for what writes files. */
const folders = 'backends/folders.ts'

/** Reading the files of models, in Node. */
const modelFiles = 'backends/modelFiles.ts'

/** Where a model's bytes come from, everywhere. */
const modelSource = 'backends/modelSource.ts'

/** Where the user's cache is, without a module of the host. */
const cacheFolder = 'backends/cacheFolder.ts'

/** For each folder, the folders (or single files) below it. A folder may always import from itself. */
const floors = {
  host: [],
  diagnostics: [],
  types: ['diagnostics'],
  scalar: base,
  affine: base,
  graph: ground,
  compose: upToGraph,
  transforms: upToCompose,
  rewrite: upToCompose,
  kernel: ground,
  report: base,
  target: [...base, 'scalar'],
  schedule: upToMachine,
  'schedule/loop': scheduling,
  'schedule/loop/ir': scheduling,
  'schedule/loop/tiles': [...scheduling, 'schedule/loop/ir'],
  'schedule/loop/nest': [...scheduling, 'schedule/loop/ir', 'schedule/loop/tiles'],
  'schedule/simt': scheduling,
  'plan/algorithms': base,
  'plan/body': planned,
  'plan/axes': [...planned, 'plan/body'],
  'plan/cost': [...planned, 'plan/body', 'plan/axes'],
  'plan/memory': [...planned, 'plan/body', 'plan/axes', 'plan/cost', 'plan/algorithms'],
  'plan/remat': [...planned, 'plan/body', 'plan/axes', 'plan/memory', 'plan/cost', 'plan/algorithms'],
  plan: [...upToGraph, 'kernel', 'target', 'schedule', reportData],
  lower: [...upToPlan, reportData],
  runtime: upToKernel,
  'codegen/vector': [...upToMachine, 'schedule'],
  'codegen/vector/ir': base,
  'codegen/wasm': [...upToMachine, 'codegen/vector'],
  'codegen/simt': [...upToMachine, 'schedule'],
  'codegen/simt/ir': [...upToMachine, 'schedule'],
  'codegen/wasm/binary': base,
  'backends/wasm': [...upToMachine, 'schedule', 'runtime', 'codegen/vector', 'codegen/wasm', reportData, cacheFolder],
  'backends/webgpu': [...upToKernel, 'runtime', 'codegen/simt', 'target', reportData],
  'backends/cuda': [...upToKernel, 'runtime', 'codegen/simt', 'target', reportData, folders, cacheFolder],
  reference: [...upToGraph, reportData],
}

/** Devices that entry points of their own open, so that the main entry loads none of them. */
const gpus = ['backends/webgpu', 'backends/cuda', 'codegen/simt']

const middle = Object.keys(floors)
floors.onnx = [...base, 'scalar', 'graph', 'compose']
const shared = middle.filter((folder) => !gpus.includes(folder))
floors.compile = shared
floors['version.ts'] = []
floors.api = [...shared, 'compile', 'version.ts']
floors['api/calls'] = floors.api.filter((folder) => !folder.startsWith('api'))
floors['api/device'] = [...floors['api/calls'], 'api/calls']
floors['api/tensor'] = [...floors['api/device'], 'api/device']
floors['api/ops'] = [...floors['api/tensor'], 'api/tensor']
floors['api/transforms'] = [...floors['api/ops'], 'api/ops']
floors['api/jit'] = [...floors['api/tensor'], 'api/tensor']
floors['onnx.ts'] = [...shared, 'compile', 'api', 'onnx']
floors['webgpu.ts'] = [...shared, 'compile', 'api', 'backends/webgpu']
floors['cuda.ts'] = [...shared, 'compile', 'api', 'backends/cuda']
floors.ort = [...shared, 'compile', 'api', 'onnx', 'webgpu.ts', 'cuda.ts', modelSource]
floors['ort.ts'] = ['ort']
floors.cli = [...middle, 'compile', 'api', 'onnx', 'onnx.ts', 'ort', 'ort.ts', 'index.ts', folders, modelFiles]
floors[folders] = []
floors[modelFiles] = base
floors[modelSource] = [...base, modelFiles]
floors[cacheFolder] = []

/** The rooms of thread schedules, each of which knows those before it. */
const threadRooms = ['storage', 'part', 'layout', 'access', 'precision', 'fold', 'prefetch', 'sequence']
for (const [i, room] of threadRooms.entries())
  floors[`schedule/simt/${room}`] = [...scheduling, ...threadRooms.slice(0, i).map((below) => `schedule/simt/${below}`)]

const escapeDots = (text) => text.replace(/[.]/g, '\\.')
const within = (place) => (place.endsWith('.ts') ? `^src/${escapeDots(place)}$` : `^src/${escapeDots(place)}/`)

const floorRules = Object.entries(floors).map(([folder, below]) => ({
  name: `floor:${folder}`,
  comment: `src/${folder} may import only from: ${below.join(', ') || 'nothing'}.`,
  severity: 'error',
  from: { path: within(folder) },
  to: { path: '^src/', pathNot: [folder, ...below].map(within) },
}))

/** The one folder that may use each runtime dependency. */
const owners = {
  commander: 'cli',
  jiti: 'cli',
  '@bufbuild/protobuf': 'onnx',
  'onnxruntime-common': 'ort',
  koffi: 'backends/cuda',
  webgpu: 'backends/webgpu',
}

const ownerRules = Object.entries(owners).map(([name, folder]) => ({
  name: `owner:${name}`,
  comment: `Only src/${folder} may import ${name}.`,
  severity: 'error',
  from: { path: '^src/', pathNot: within(folder) },
  to: { path: `^node_modules/${name}/` },
}))

module.exports = {
  forbidden: [
    ...floorRules,
    {
      name: 'floor:index.ts',
      comment: 'The main entry exports src/api and nothing else.',
      severity: 'error',
      from: { path: '^src/index\\.ts$' },
      to: { path: '^src/', pathNot: '^src/api/' },
    },
    {
      name: 'unlisted-folder',
      comment: 'Every folder of src has a line in .dependency-cruiser.cjs.',
      severity: 'error',
      from: { path: '^src/', pathNot: ['^src/index\\.ts$', ...Object.keys(floors).map(within)] },
      to: {},
    },
    {
      name: 'no-circular',
      comment: 'No circular imports, those of types included.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'host-modules',
      comment: 'node: modules are for src/backends and src/cli.',
      severity: 'error',
      from: { path: '^src/', pathNot: ['^src/backends/', '^src/cli/'] },
      to: { dependencyTypes: ['core'] },
    },
    ...ownerRules,
    {
      name: 'runtime-dependencies',
      comment:
        'src imports only what package.json lists under dependencies, and koffi, which is optional, where it has its owner.',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        pathNot: '^node_modules/koffi/',
        dependencyTypes: ['npm-dev', 'npm-optional', 'npm-peer', 'npm-no-pkg', 'npm-unknown', 'undetermined'],
        dependencyTypesNot: ['npm'],
      },
    },
    {
      name: 'inside-src',
      comment: 'src imports no file of the repository outside src.',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|examples|bench|scripts|dist|docs)/' },
    },
    {
      name: 'unresolvable',
      comment: 'Every import resolves.',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    combinedDependencies: false,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['types', 'import', 'node', 'default'],
      extensions: ['.ts', '.js', '.mjs', '.d.ts'],
    },
  },
}
