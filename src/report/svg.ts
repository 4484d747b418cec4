/** The fusion report as an SVG picture: kernels as boxes around their operations, arrows for what they read and write. */
import { printable } from '../diagnostics/text.ts'
import type { FusionReport, KernelReport } from './data.ts'
import { counted, countedLaunches, countedOperations, lossText, savedText, showBytes, showMs } from './format.ts'

export interface PictureOptions {
  /** Draw the totals and the refused merges too, so that the picture stands alone. */
  readonly alone?: boolean
}

/** Text inside markup; control characters, which no markup may hold, are written out. */
export const escapeMarkup = (s: string): string =>
  printable(s).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

const width = 960
const box = { left: 236, right: 724 } as const
const memory = { left: 40, right: 908, bar: 14 } as const
const chip = { height: 22, gap: 6, pad: 8, char: 7.3 } as const
const thickest = 22

const colours: Readonly<Record<string, string>> = {
  matrix: '#4f5bd5',
  reduction: '#0f8a7e',
  elementwise: '#c77700',
  scatter: '#b83260',
}
const otherColour = '#667085'

interface Chip {
  readonly text: string
  readonly x: number
  readonly y: number
  readonly width: number
}

/** Chips in lines of the box's width. */
function layChips(texts: readonly string[], from: number, to: number): { chips: Chip[]; lines: number } {
  const chips: Chip[] = []
  let [x, line] = [from, 0]
  for (const text of texts) {
    const w = text.length * chip.char + 2 * chip.pad
    if (x > from && x + w > to) {
      x = from
      line++
    }
    chips.push({ text, x, y: line * (chip.height + chip.gap), width: w })
    x += w + chip.gap
  }
  return { chips, lines: line + 1 }
}

const text = (x: number, y: number, s: string, attributes = ''): string =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}"${attributes === '' ? '' : ` ${attributes}`}>${escapeMarkup(s)}</text>`

/** An arrow whose thickness is a share of the heaviest traffic. */
function arrow(from: number, to: number, y: number, bytes: number, most: number): string {
  const t = 1.5 + (thickest - 1.5) * (bytes / Math.max(1, most))
  const head = Math.max(5, t * 0.75)
  const half = t / 2
  const neck = to - head
  const label = text((from + neck) / 2, y - half - 5, showBytes(bytes), 'class="bytes"')
  const points = [
    [from, y - half],
    [neck, y - half],
    [neck, y - half - head / 2],
    [to, y],
    [neck, y + half + head / 2],
    [neck, y + half],
    [from, y + half],
  ]
  const shape = points.map(([px = 0, py = 0]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(' ')
  return `<polygon class="flow" points="${shape}"/>${label}`
}

interface Drawn {
  readonly markup: string
  readonly height: number
}

function drawKernel(k: KernelReport, index: number, top: number, most: number): Drawn {
  const colour = colours[k.kind] ?? otherColour
  const names = countedOperations(k)
  const inner = { left: box.left + 18, right: box.right - 12 }
  const { chips, lines } = layChips(names.length === 0 ? [k.name] : names, inner.left, inner.right)
  const chipsTop = top + 30
  const stagesTop = chipsTop + lines * (chip.height + chip.gap) + 2
  const bottom = stagesTop + k.stages.length * 16 + 6
  const height = Math.max(bottom - top, 64)
  const middle = top + height / 2
  const title = `${index + 1}  ${k.kind}${k.parts > 1 ? `, ${counted(k.parts, 'part')}` : ''}`
  const facts = `${showMs(k.modelledMs)} ms modelled, ${k.intensity.toFixed(1)} flop/B`
  const parts = [
    `<rect class="kernel" x="${box.left}" y="${top}" width="${box.right - box.left}" height="${height}" rx="8"/>`,
    `<rect x="${box.left}" y="${top}" width="6" height="${height}" rx="3" fill="${colour}"/>`,
    text(inner.left, top + 20, title, `class="kind" style="fill:${colour}"`),
    text(inner.right, top + 20, facts, 'class="facts" text-anchor="end"'),
    ...chips.flatMap((c) => [
      `<rect class="chip" x="${c.x.toFixed(1)}" y="${(chipsTop + c.y).toFixed(1)}" width="${c.width.toFixed(1)}" height="${chip.height}" rx="5"/>`,
      text(c.x + c.width / 2, chipsTop + c.y + 15, c.text, 'class="operation"'),
    ]),
    ...k.stages.map((s, i) =>
      text(inner.left, stagesTop + 8 + i * 16, `+ ${s.stage} stage (${showBytes(s.bytes)})`, 'class="facts"'),
    ),
    arrow(memory.left + memory.bar, box.left - 2, middle + 4, k.bytesRead, most),
    k.bytesWritten > 0 ? arrow(box.right + 2, memory.right - 2, middle + 4, k.bytesWritten, most) : '',
  ]
  return { markup: parts.join('\n'), height }
}

function drawTotals(r: FusionReport, top: number): Drawn {
  const { totals } = r
  const full = width - 2 * memory.left
  const most = Math.max(totals.bytes, totals.bytesOpByOp, 1)
  const bar = (y: number, label: string, bytes: number, cls: string): string =>
    `<rect class="${cls}" x="${memory.left}" y="${y}" width="${((full * bytes) / most).toFixed(1)}" height="26" rx="5"/>${text(memory.left + 10, y + 18, `${label}: ${showBytes(bytes)}`, 'class="barlabel"')}`
  const headline = `${counted(totals.operations, 'operation')} in ${countedLaunches(totals)}; memory traffic: ${savedText(totals)}`
  const parts = [
    text(memory.left, top + 24, r.name, 'class="title"'),
    text(memory.left, top + 48, headline, 'class="headline"'),
    bar(top + 64, 'operation by operation', totals.bytesOpByOp, 'before'),
    bar(top + 96, 'fused', totals.bytes, 'after'),
  ]
  return { markup: parts.join('\n'), height: 146 }
}

function drawRefusals(r: FusionReport, top: number): Drawn {
  const list = r.refused
  if (list.length === 0) return { markup: '', height: 0 }
  const shown = list.slice(0, 8)
  const lines = shown.map((f, i) => {
    const many = f.count > 1 ? ` (${f.count} times)` : ''
    const loss = f.lossMs === undefined ? '' : `, ${lossText(f.lossMs)}`
    return text(memory.left, top + 48 + i * 20, `${f.from} → ${f.to}: ${f.detail}${loss}${many}`, 'class="refusal"')
  })
  if (list.length > shown.length)
    lines.push(
      text(memory.left, top + 48 + shown.length * 20, `and ${list.length - shown.length} more`, 'class="facts"'),
    )
  const markup = [text(memory.left, top + 22, 'Not fused, and why', 'class="section"'), ...lines].join('\n')
  return { markup, height: 48 + lines.length * 20 }
}

const style = `
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1d2433; }
.paper { fill: #ffffff; stroke: #d8dee9; }
.title { font-size: 22px; font-weight: 650; }
.headline { font-size: 15px; fill: #475067; }
.section { font-size: 15px; font-weight: 650; }
.kernel { fill: #f7f8fb; stroke: #d3d9e4; }
.chip { fill: #ffffff; stroke: #c5ccd9; }
.operation { font: 12px ui-monospace, "SF Mono", Menlo, Consolas, monospace; text-anchor: middle; }
.kind { font-size: 12px; font-weight: 650; }
.facts, .refusal { font-size: 12px; fill: #5d6679; }
.bytes { font-size: 12px; fill: #5d6679; text-anchor: middle; }
.flow { fill: #9db2d6; }
.memory { fill: #e3e8f1; }
.memlabel { font-size: 12px; fill: #5d6679; text-anchor: middle; }
.before { fill: #d9dee8; }
.after { fill: #8fd0b8; }
.barlabel { font-size: 13px; font-weight: 600; }
`

/** Draws a report. The picture carries its own style and background. */
export function reportPicture(r: FusionReport, options: PictureOptions = {}): string {
  const alone = options.alone === true
  const totals = alone ? drawTotals(r, 24) : { markup: '', height: 0 }
  const kernelsTop = totals.height + (alone ? 24 : 0) + 44
  const most = Math.max(1, ...r.kernels.flatMap((k) => [k.bytesRead, k.bytesWritten]))
  const kernels: string[] = []
  let y = kernelsTop
  r.kernels.forEach((k, i) => {
    const drawn = drawKernel(k, i, y, most)
    kernels.push(`<g>${drawn.markup}</g>`)
    y += drawn.height + 14
  })
  const bars = [memory.left, memory.right].map(
    (x) =>
      `<rect class="memory" x="${x}" y="${kernelsTop - 8}" width="${memory.bar}" height="${y - kernelsTop + 2}" rx="4"/>${text(x + memory.bar / 2, kernelsTop - 16, 'memory', 'class="memlabel"')}`,
  )
  const refusals = alone ? drawRefusals(r, y + 6) : { markup: '', height: 0 }
  const height = y + refusals.height + 24
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height.toFixed(0)}" width="${width}" height="${height.toFixed(0)}" role="img" aria-label="${escapeMarkup(`Fusion report of ${r.name}`)}">`,
    `<style>${style}</style>`,
    `<rect class="paper" x="0.5" y="0.5" width="${width - 1}" height="${(height - 1).toFixed(0)}" rx="12"/>`,
    totals.markup,
    ...bars,
    ...kernels,
    refusals.markup,
    '</svg>',
  ]
    .filter((s) => s !== '')
    .join('\n')
}
