// Answers of calls that were tried.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerOf } from '../assets/parts/answer.js';

test('the data of a result is shown with the digits that it has', () => {
  const answer = answerOf(
    '{"state":"completed","result":{"content":[{"type":"text","text":"a\\nb"},{"type":"image","size":9007199254740993}],"structuredContent":{"id":9007199254740993,"ratio":1.10}},"duration_ms":2}',
  );
  assert.equal(answer.state, 'completed');
  assert.equal(answer.duration_ms, 2);
  assert.deepEqual(answer.shown.texts, ['a\nb', '{\n  "type": "image",\n  "size": 9007199254740993\n}']);
  assert.equal(answer.shown.structured, '{\n  "id": 9007199254740993,\n  "ratio": 1.10\n}');
});

test('an answer without a result, or with another form, shows what there is', () => {
  assert.deepEqual(answerOf('{"state":"waiting","approval":"a"}'), { state: 'waiting', approval: 'a', shown: { texts: [], structured: undefined } });
  assert.deepEqual(answerOf('{"result":null}').shown.texts, []);
  assert.deepEqual(answerOf('{"result":{"content":{"a":1}}}').shown.texts, ['1']);
  assert.deepEqual(answerOf('{"result":{"content":[null,{"type":"text","text":"x"}]}}').shown.texts, ['null', 'x']);
  assert.deepEqual(answerOf('null').shown.texts, []);
});
