// The requests of a plugin in plain words, and the grants that they need.

/** By the kind of a request: words for its rights, and the value of a grant. Words in capitals are for the operator to replace. */
const KINDS = {
  http: { words: 'sends requests over the network, to', list: true },
  secret: { words: 'uses a secret that you name', value: { from: 'env:VARIABLE' } },
  kv: { words: 'keeps entries in a store of its own, of at most', value: {} },
  files: { words: 'uses files in a directory that you name:', value: { path: 'DIRECTORY', access: 'read_only' } },
  slot: { words: 'calls one tool that you choose:', value: 'CLIENT-TOOL' },
  scratch: { words: 'writes temporary files, at most', whole: {} },
  tools: { words: 'calls other tools:', whole: ['CLIENT-TOOL'] },
  clocks: { words: 'reads the clock', whole: true },
};

/** Returns a request as `{ name, sentence, reason, isOptional }`. */
export function requestWords(request) {
  const { kind, name } = split(request.place);
  const rights = request.what.join(', ');
  const words = KINDS[kind]?.words ?? 'asks for';
  const found = rights === '*' ? 'places that you choose' : rights;
  return { name: name ?? kind, sentence: `${words} ${found}`.trim().replace(/:$/, ''), reason: request.reason, isOptional: request.optional };
}

/** Returns grants for requests, in the form of the configuration. */
export function grantsFor(requests) {
  const grants = new Map();
  for (const { place } of requests) {
    const { kind, name } = split(place);
    const known = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
    if (known === undefined) continue;
    if ('whole' in known) {
      grants.set(kind, known.whole);
    } else {
      grants.set(kind, [...(grants.get(kind) ?? []), known.list ? name : [name, known.value]]);
    }
  }
  const members = [...grants].map(([kind, value]) => {
    const isTable = Array.isArray(value) && Array.isArray(value[0]);
    return [kind, isTable ? Object.fromEntries(value) : value];
  });
  return Object.fromEntries(members);
}

/** Returns granted rights as sentences, from the grants of a configuration. */
export function grantSentences(grants) {
  if (typeof grants !== 'object' || grants === null) return [];
  return Object.entries(grants).flatMap(([kind, value]) => sentences(kind, value));
}

function sentences(kind, value) {
  const words = Object.hasOwn(KINDS, kind) ? KINDS[kind].words.replace(/[:,]? ?(of at most|at most|to)?$/, '') : kind;
  if (value === true || (kind === 'scratch' && value !== null)) return [words];
  if (Array.isArray(value)) return value.map((entry) => `${words}: ${plain(entry)}`);
  if (typeof value !== 'object' || value === null) return [`${words}: ${plain(value)}`];
  return Object.entries(value).map(([name, entry]) => `${words}: ${name}${isEmpty(entry) ? '' : ` (${plain(entry)})`}`);
}

function isEmpty(entry) {
  return typeof entry === 'object' && entry !== null && Object.keys(entry).length === 0;
}

function plain(value) {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function split(place) {
  const at = place.indexOf('.');
  return at < 0 ? { kind: place } : { kind: place.slice(0, at), name: place.slice(at + 1) };
}

/** Returns what a component is and may do, as lines that can be compared with those of another one. */
export function componentLines(component) {
  if (!component || component.problem !== undefined) return '';
  const lines = [
    `id ${component.id}`,
    `version ${component.version ?? 'none'}`,
    ...(component.requests ?? []).map((request) => `request ${request.place} ${request.what.join(', ')}${request.optional ? ' (optional)' : ''}`),
    ...(component.limits ?? []).map((limit) => `limit ${limit}`),
    ...(component.imports ?? []).map((name) => `import ${name}`),
    ...(component.tools ?? []).flatMap((tool) => [
      `tool ${tool.name}${(tool.effects ?? []).map((effect) => ` ${effect}`).join('')}`,
      ...tool.description.split('\n').map((line) => `    ${line}`),
    ]),
  ];
  return lines.join('\n');
}
