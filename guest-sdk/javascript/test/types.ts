// Checked by `tsc --noEmit`, not run: types are inferred from schemas.
import { Output, ToolError, plugin, s, tool, type Infer } from '../index.js';
import { load } from '../config.js';
import { open } from '../kv.js';
import { Host } from '../testing.js';

const input = s.object({
  city: s.string().min(1).describe('A city.'),
  days: s.integer().default(3),
  unit: s.enum(['c', 'f']).optional(),
  rows: s.array(s.object({ n: s.number().nullable() })),
});
const args: Infer<typeof input> = { city: 'Oslo', days: 1, rows: [{ n: null }] };
args.unit = 'c';
// @ts-expect-error: it is no unit
args.unit = 'k';
// @ts-expect-error: a default makes it present
args.days = undefined;

const forecast = tool({
  name: 'forecast',
  description: 'Does it.',
  input,
  output: s.object({ celsius: s.number() }),
  run({ city, days, unit, rows }, context) {
    const length: number = city.length + days + (rows[0]?.n ?? 0);
    // @ts-expect-error: it may be absent
    unit.length;
    context.progress(1, undefined, 'half');
    return length > 3 ? { celsius: 4 } : new Output({ structuredContent: { celsius: 4 }, content: ['cold'] });
  },
});

tool({
  name: 'wrong',
  description: 'Does it.',
  input,
  output: s.object({ celsius: s.number() }),
  // @ts-expect-error: the data does not have its schema
  run: () => ({ kelvin: 4 }),
});

tool({ name: 'plain', description: 'Does it.', input: { type: 'object', properties: {} }, run: (args) => args.anything });
tool({ name: 'nothing', description: 'Does it.', run() {} });
plugin(forecast);

const { rows } = load(s.object({ rows: s.integer().default(10) }));
const count: number = open('visits').updateJson<number>('k', (n) => (n ?? 0) + rows);
// @ts-expect-error: there is no such kind
new ToolError('missing', String(count));

const refused = new ToolError('limit-reached', 'no calls left', { extra: { ttl: 7 } });
const isFromHost: boolean = refused.isFromHost;
new Output({ extra: { ttl: 7 }, meta: { isFromHost } });
// @ts-expect-error: the other members are an object
new Output({ extra: 'ttl' });
tool({ name: 'hinted', description: 'Does it.', annotations: { readOnly: true, extra: { audience: 'staff' } }, run() {} });
new Host({ stores: ['visits'] });
new Host({ stores: { visits: 1024 } });
