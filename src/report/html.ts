/** The fusion report as a page that stands alone: the picture, and what it cannot show, in tables. */
import type { FusionReport, KernelReport } from './data.ts'
import {
  counted,
  countedLaunches,
  countedOperations,
  innerTitle,
  libraryLine,
  lossText,
  showBytes,
  showMs,
} from './format.ts'
import { escapeMarkup, reportPicture } from './svg.ts'

const style = `
body { font: 15px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; margin: 2rem auto; max-width: 980px; padding: 0 1rem; color: #1d2433; background: #fff; }
h1 { font-size: 1.6rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.15rem; margin-top: 2rem; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.3rem 0.8rem 0.3rem 0; border-bottom: 1px solid #e3e8f1; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font: 0.85em ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
.bars div { border-radius: 5px; padding: 0.2rem 0.6rem; margin: 0.3rem 0; font-weight: 600; white-space: nowrap; color: #1d2433; }
.before { background: #d9dee8; }
.after { background: #8fd0b8; }
.quiet { color: #5d6679; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e9f0; background: #14171f; }
  th, td { border-color: #2c3342; }
  .quiet { color: #9aa4b8; }
}
`

type Cell = string | { readonly number: string } | { readonly code: string }

function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cell = (c: Cell): string =>
    typeof c === 'string'
      ? `<td>${escapeMarkup(c)}</td>`
      : 'number' in c
        ? `<td class="number">${escapeMarkup(c.number)}</td>`
        : `<td><code>${escapeMarkup(c.code)}</code></td>`
  const body = rows.map((r) => `<tr>${r.map(cell).join('')}</tr>`).join('\n')
  return `<table><thead><tr>${head.map((h) => `<th>${escapeMarkup(h)}</th>`).join('')}</tr></thead>\n<tbody>\n${body}\n</tbody></table>`
}

const section = (title: string, body: string): string => `<h2>${escapeMarkup(title)}</h2>\n${body}`

function totals(r: FusionReport): string {
  const most = Math.max(r.totals.bytes, r.totals.bytesOpByOp, 1)
  const bar = (cls: string, label: string, bytes: number): string =>
    `<div class="${cls}" style="width:${((100 * bytes) / most).toFixed(1)}%">${escapeMarkup(`${label}: ${showBytes(bytes)}`)}</div>`
  return `<div class="bars">${bar('before', 'operation by operation', r.totals.bytesOpByOp)}${bar('after', 'fused', r.totals.bytes)}</div>`
}

/** The kernels inside control flow, by the step. */
function innerRows(kernels: readonly KernelReport[], around = ''): Cell[][] {
  return kernels.flatMap((k) =>
    (k.inner ?? []).flatMap((i) => {
      const place = `${around}${k.kind} ${innerTitle(i)}`
      return i.kernels.flatMap((x): Cell[][] => [
        [
          place,
          x.kind,
          countedOperations(x).join(', ') || x.name,
          { number: showBytes(x.bytesRead) },
          { number: showBytes(x.bytesWritten) },
          { number: `${showMs(x.modelledMs)} ms` },
        ],
        ...innerRows([x], `${place} / `),
      ])
    }),
  )
}

/** Kernels with those inside control flow. */
const withInside = (kernels: readonly KernelReport[]): KernelReport[] =>
  kernels.flatMap((k) => [k, ...withInside((k.inner ?? []).flatMap((i) => i.kernels))])

/** The page of a report; `plannedFor` names the GPU or the limits that the plan goes by. It loads nothing. */
export function reportPage(r: FusionReport, plannedFor?: string): string {
  const stages = r.totals.stages > 0 ? ` and ${counted(r.totals.stages, 'stage')}` : ''
  const { memory } = r
  const parts = [
    `<h1>${escapeMarkup(r.name)}</h1>`,
    `<p>${counted(r.totals.operations, 'operation')} in ${countedLaunches(r.totals)}${stages} for ${escapeMarkup(r.target)}, ${r.mode}; modelled ${showMs(r.totals.modelledMs)} ms.</p>`,
    ...(plannedFor === undefined ? [] : [`<p class="quiet">Planned for ${escapeMarkup(plannedFor)}.</p>`]),
    totals(r),
    `<p class="quiet">Peak memory ${showBytes(memory.peakBytes)}: intermediates ${showBytes(memory.arenaBytes)}, ${showBytes(memory.unsharedBytes)} without reuse; ${memory.inPlace} written in place.</p>`,
    section('Kernels', reportPicture(r)),
  ]
  const inside = innerRows(r.kernels)
  if (inside.length > 0)
    parts.push(
      section('Inside control flow', table(['in', 'kernel', 'operations', 'read', 'written', 'modelled'], inside)),
    )
  const products = withInside(r.kernels).flatMap((k) => (k.library === undefined ? [] : [{ k, library: k.library }]))
  if (products.length > 0)
    parts.push(
      section(
        'Matrix products and the library',
        table(
          ['kernel', 'operations', 'modelled', 'computed by'],
          products.map(({ k, library }): Cell[] => [
            k.name,
            countedOperations(k).join(', '),
            { number: `${showMs(k.modelledMs)} ms` },
            libraryLine(library),
          ]),
        ),
      ),
    )
  if (r.refused.length > 0)
    parts.push(
      section(
        'Not fused, and why',
        table(
          ['from', 'to', 'reason', 'detail', 'modelled', 'times'],
          r.refused.map((f) => [
            f.from,
            f.to,
            { code: f.code },
            f.detail,
            { number: f.lossMs === undefined ? '' : lossText(f.lossMs) },
            { number: String(f.count) },
          ]),
        ),
      ),
    )
  if (r.recomputed.length > 0)
    parts.push(
      section(
        'Computed again instead of stored',
        table(
          ['value', 'in kernels', 'saves'],
          r.recomputed.map((c) => [c.value, { number: String(c.consumers) }, { number: showBytes(c.savedBytes) }]),
        ),
      ),
    )
  if (r.passes !== undefined && r.passes.values.length > 0)
    parts.push(
      section(
        'Between forward and backward',
        table(
          ['value', 'form', 'bytes', 'choice', 'keeping, ms', 'computing again, ms'],
          r.passes.values.map((v) => [
            `${v.value} [${v.shape.join(', ')}]`,
            v.form,
            { number: showBytes(v.bytes) },
            v.choice,
            { number: showMs(v.keepMs) },
            { number: showMs(v.againMs) },
          ]),
        ),
      ),
    )
  if (r.storedBools.length > 0)
    parts.push(
      section(
        'Bools between kernels',
        table(
          ['value', 'form', 'bytes', 'why not bits'],
          r.storedBools.map((b) => [
            b.value,
            b.form,
            { number: showBytes(b.bytes) },
            b.why === undefined ? '' : `${b.why.code}: ${b.why.detail}`,
          ]),
        ),
      ),
    )
  if (r.rewrites.length > 0)
    parts.push(
      section(
        'Rewrites',
        table(
          ['rule', 'times'],
          r.rewrites.map((w) => [{ code: w.rule }, { number: String(w.count) }]),
        ),
      ),
    )
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeMarkup(`Fusion report of ${r.name}`)}</title>
<style>${style}</style>
</head>
<body>
${parts.join('\n')}
</body>
</html>
`
}
