/** Which frame of a stack is the user's: in every form that engines, loaders and bundlers give it. */
import { describe, expect, it } from 'vitest'
import { callSite, siteIn } from '../../src/api/calls/callsite.ts'

const site = (...lines: string[]): string | undefined => siteIn(lines).where

describe('the frame of the user', () => {
  it.each([
    [
      'in a module beside the installed package',
      [
        'Error: call site',
        '    at stackOf (file:///app/node_modules/sinter/dist/api/calls/callsite.js:40:21)',
        '    at named (file:///app/node_modules/sinter/dist/api/core.js:9:1)',
        '    at Tensor.add (file:///app/node_modules/sinter/dist/api/tensor.js:20:16)',
        '    at file:///app/main.mjs:3:27',
      ],
      '/app/main.mjs:3:27',
    ],
    [
      'where the package is linked from its own folder',
      [
        '    at stackOf (file:///code/sinter/dist/api/calls/callsite.js:40:21)',
        '    at f (file:///code/app/main.mjs:3:27)',
      ],
      '/code/app/main.mjs:3:27',
    ],
    [
      'through source maps, which show the sources of the package',
      [
        '    at stackOf (/app/node_modules/sinter/src/api/calls/callsite.ts:52:21)',
        '    at <anonymous> (/app/node_modules/sinter/src/diagnostics/origin.ts:9:1)',
        '    at train (/app/src/train.ts:12:9)',
      ],
      '/app/src/train.ts:12:9',
    ],
    [
      'in a folder whose name is escaped in URLs, and one with brackets',
      [
        '    at stackOf (file:///my%20app/node_modules/sinter/dist/api/calls/callsite.js:40:21)',
        '    at async run (file:///my%20app/ma%28i%29n.mjs:3:27)',
      ],
      '/my app/ma(i)n.mjs:3:27',
    ],
    [
      'in CommonJS, in a folder with a space',
      [
        '    at stackOf (file:///my%20app/node_modules/sinter/dist/api/calls/callsite.js:40:21)',
        '    at Object.<anonymous> (/my app/main.cjs:3:27)',
      ],
      '/my app/main.cjs:3:27',
    ],
    [
      'on Windows',
      [
        '    at stackOf (file:///C:/app/node_modules/sinter/dist/api/calls/callsite.js:40:21)',
        '    at Object.<anonymous> (C:\\app\\main.cjs:3:27)',
      ],
      'C:/app/main.cjs:3:27',
    ],
    [
      'in a browser (Firefox, Safari)',
      [
        'stackOf@https://host/sinter/api/calls/callsite.js:40:21',
        'named@https://host/sinter/api/core.js:9:1',
        'https://host/app.js:3:27',
      ],
      'https://host/app.js:3:27',
    ],
    [
      'behind a package that uses this one',
      [
        '    at stackOf (file:///app/node_modules/sinter/dist/api/calls/callsite.js:40:21)',
        '    at layer (file:///app/node_modules/layers/index.js:1:1)',
        '    at file:///app/main.mjs:3:27',
      ],
      '/app/main.mjs:3:27',
    ],
    [
      'in a package, where nothing else is on the stack',
      [
        '    at stackOf (file:///app/node_modules/sinter/dist/api/calls/callsite.js:40:21)',
        '    at Array.map (<anonymous>)',
        '    at layer (file:///app/node_modules/layers/index.js:1:1)',
        '    at ModuleJob.run (node:internal/modules/esm/module_job:343:25)',
      ],
      '/app/node_modules/layers/index.js:1:1',
    ],
    [
      'beside a bundle of the library alone',
      [
        '    at a (file:///app/vendor.js:1:4021)',
        '    at b (file:///app/vendor.js:1:77)',
        '    at file:///app/main.mjs:3:27',
      ],
      '/app/main.mjs:3:27',
    ],
    [
      'with a query',
      ['    at a (http://host/dist/api/calls/callsite.js?v=1:4:1)', '    at b (http://host/main.js?t=12:3:27)'],
      'http://host/main.js:3:27',
    ],
  ])('%s', (_, lines, where) => {
    expect(site(...lines)).toBe(where)
  })

  it('is not guessed where one file holds the library and the user', () => {
    expect(
      site('    at a (/app/bundle.js:1:4021)', '    at b (/app/bundle.js:1:977)', '    at node:internal/main:1:1'),
    ).toBe(undefined)
  })

  it('is not one of the command, whose own packages call it back', () => {
    expect(
      site(
        '    at stackOf (file:///app/node_modules/sinter/dist/api/calls/callsite.js:40:21)',
        '    at explain (file:///app/node_modules/sinter/dist/cli/commands.js:9:1)',
        '    at Command.parseAsync (/app/node_modules/commander/lib/command.js:1:1)',
      ),
    ).toBe(undefined)
  })
})

it('is that of the caller', () => {
  expect(callSite()).toMatch(/callsite\.test\.ts:\d+:\d+$/)
})
