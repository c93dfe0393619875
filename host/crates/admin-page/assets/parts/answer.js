// The answer of a call that was tried, in which the data is shown as it was written.
import { member, parts, pretty } from '../lib/json.js';

/** Reads an answer: its members, and as `shown` the texts and the data of its result: `{ texts, structured }`. */
export function answerOf(text) {
  const answer = JSON.parse(text);
  const result = member(text, 'result') ?? 'null';
  const texts = parts(member(result, 'content') ?? 'null').map(([, part], at) => textOf(answer.result.content[at], part));
  const structured = member(result, 'structuredContent');
  return { ...answer, shown: { texts, structured: structured && pretty(structured) } };
}

function textOf(part, written) {
  return part?.type === 'text' ? part.text : pretty(written);
}
