// The accessibility rules of axe-core, run in a page.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const SOURCE = readFileSync(join(process.env.AIRLOCK_BROWSER_MODULES, 'axe-core/axe.min.js'), 'utf8');
const OPTIONS = {
  runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] },
  // WCAG 2.2, 2.5.8; disabled unless it is named.
  rules: { 'target-size': { enabled: true } },
  resultTypes: ['violations', 'incomplete'],
};

/**
 * Findings that are no faults, each with its reason: `{ rule, target, reason }`, where `target` is a pattern of the
 * selector that axe-core prints. Incomplete results fail like violations unless they are here.
 */
const EXPLAINED = [];

function isExplained(rule, target) {
  return EXPLAINED.some((known) => known.rule === rule && known.target.test(target));
}

/** Returns the faults of a page, one line for each element: the rule, the element and what to change. */
export async function accessibilityFaults(page) {
  await page.evaluate(SOURCE);
  const results = await page.evaluate((options) => window.axe.run(document, options), OPTIONS);
  const kinds = [...results.violations, ...results.incomplete.map((rule) => ({ ...rule, isIncomplete: true }))];
  return kinds.flatMap((rule) =>
    rule.nodes
      .filter((node) => !isExplained(rule.id, node.target.join(' ')))
      .map((node) => {
        const kind = rule.isIncomplete ? `${rule.id} (incomplete)` : rule.id;
        const reasons = [...node.any, ...node.all, ...node.none].map((check) => check.message);
        return `${kind}: ${node.target.join(' ')}: ${reasons.join('; ').slice(0, 300)}: ${node.html.slice(0, 160)}`;
      }),
  );
}
