/** A loss curve as an SVG picture. */
import { scaleLinear, scaleLog } from 'd3-scale'
import { line } from 'd3-shape'

const [width, height] = [720, 360]
const margin = { top: 40, right: 24, bottom: 44, left: 64 }

const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;')

/** Running mean over the last `span` values. */
function smoothed(values, span) {
  let total = 0
  return values.map((v, i) => {
    total += v - (i >= span ? values[i - span] : 0)
    return total / Math.min(i + 1, span)
  })
}

/** The picture: each value thin, their running mean thick, on a logarithmic axis where they span much. */
export function drawCurve(losses, { title, label = 'loss' }) {
  const finite = losses.filter(Number.isFinite)
  const [low, high] = finite.length === 0 ? [0, 1] : [Math.min(...finite), Math.max(...finite)]
  const logarithmic = low > 0 && high > 30 * low
  const x = scaleLinear([1, Math.max(2, losses.length)], [margin.left, width - margin.right])
  const y = (logarithmic ? scaleLog() : scaleLinear())
    .domain(low < high ? [low, high] : [low * 0.9, high * 1.1])
    .range([height - margin.bottom, margin.top])
    .nice()
  const path = (values) =>
    line(
      (_, i) => x(i + 1),
      (v) => y(v),
    ).defined(Number.isFinite)(values) ?? ''
  // The format leaves out what would crowd.
  const shown = y.tickFormat(5)
  const few = y.ticks(5).filter((v) => shown(v) !== '')
  const text = (at, content, more = '') => `<text ${at} ${more}>${escaped(content)}</text>`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#444">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    text(`x="${margin.left}" y="24"`, title, 'font-size="15" fill="#111"'),
    ...few.flatMap((v) => [
      `<line x1="${margin.left}" x2="${width - margin.right}" y1="${y(v).toFixed(1)}" y2="${y(v).toFixed(1)}" stroke="#e4e4e4"/>`,
      text(`x="${margin.left - 8}" y="${(y(v) + 4).toFixed(1)}"`, String(v), 'text-anchor="end"'),
    ]),
    ...x
      .ticks(6)
      .map((v) => text(`x="${x(v).toFixed(1)}" y="${height - margin.bottom + 20}"`, String(v), 'text-anchor="middle"')),
    text(`x="${width / 2}" y="${height - 8}"`, 'step', 'text-anchor="middle"'),
    text(`transform="translate(16 ${height / 2}) rotate(-90)"`, label, 'text-anchor="middle"'),
    `<path d="${path(losses)}" fill="none" stroke="#9cc3e6" stroke-width="1"/>`,
    `<path d="${path(smoothed(losses, Math.max(1, Math.round(losses.length / 40))))}" fill="none" stroke="#1f5f99" stroke-width="2"/>`,
    '</svg>',
    '',
  ].join('\n')
}
