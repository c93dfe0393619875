/** Hook of Node.js: the interfaces of the host are the modules beside this one. */

const INTERFACE = /^airlock:host\/([a-z-]+)@0\.1\.0$/;

export function resolve(specifier, context, next) {
  const [, name] = INTERFACE.exec(specifier) ?? [];
  return name ? { url: new URL(`./${name}.js`, import.meta.url).href, shortCircuit: true } : next(specifier, context);
}
