import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { EventStream } from '../../src/lib/event-stream.ts';
import { zipFault } from '../../src/lib/zip.ts';
import { storedZip } from '../../src/lib/zip-write.ts';
import { answerOf, answersOf } from '../../src/wires/a2a/remote/answers.ts';
import { readCard } from '../../src/wires/a2a/remote/card.ts';
import { after, readEvent, readTaskNow, type TaskNow, unwrapData } from '../../src/wires/a2a/remote/form.ts';

const json = fc.jsonValue({ maxDepth: 5 });

describe('what a server says, in every dialect', () => {
  const v1 = {
    task: {
      id: 't',
      contextId: 'c',
      status: {
        state: 'TASK_STATE_INPUT_REQUIRED',
        message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'Which?' }] },
      },
      artifacts: [
        {
          artifactId: 'a',
          parts: [{ raw: 'eA==', filename: 'f', mediaType: 'text/plain' }, { data: { data: { n: 1 } } }],
        },
      ],
    },
  };
  const v03 = {
    kind: 'task',
    id: 't',
    contextId: 'c',
    status: {
      state: 'input-required',
      message: { kind: 'message', messageId: 'm', role: 'agent', parts: [{ kind: 'text', text: 'Which?' }] },
    },
    artifacts: [
      {
        artifactId: 'a',
        parts: [
          { kind: 'file', file: { bytes: 'eA==', name: 'f', mimeType: 'text/plain' } },
          { kind: 'data', data: { data: { n: 1 } } },
        ],
      },
    ],
  };
  const proto03 = {
    task: {
      id: 't',
      contextId: 'c',
      status: {
        state: 'TASK_STATE_INPUT_REQUIRED',
        message: { messageId: 'm', role: 'ROLE_AGENT', content: [{ text: 'Which?' }] },
      },
      artifacts: [
        {
          artifactId: 'a',
          parts: [
            { file: { fileWithBytes: 'eA==', name: 'f', mimeType: 'text/plain' } },
            { data: { data: { data: { n: 1 } } } },
          ],
        },
      ],
    },
  };

  it('is the same task', () => {
    const read = readTaskNow(v1);
    assert.deepEqual(read, {
      id: 't',
      contextId: 'c',
      state: 'input_required',
      message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'Which?' }] },
      timestamp: '',
      artifacts: [
        {
          artifactId: 'a',
          parts: [{ raw: 'eA==', filename: 'f', mediaType: 'text/plain' }, { data: { data: { n: 1 } } }],
        },
      ],
      history: [],
    } satisfies TaskNow);
    assert.deepEqual(readTaskNow(v03), read);
    assert.deepEqual(readTaskNow(unwrapData(proto03)), read);
    assert.deepEqual(readTaskNow(v1.task), read);
  });

  it('both spellings of a state, and its number', () => {
    for (const state of ['canceled', 'cancelled', 'TASK_STATE_CANCELED', 'TASK_STATE_CANCELLED', 5]) {
      assert.equal(readTaskNow({ id: 't', status: { state } })?.state, 'canceled');
    }
    for (const state of ['unknown', 'constructor', undefined, 99, {}])
      assert.equal(readTaskNow({ id: 't', status: { state } })?.state, 'working');
  });

  it('nothing that a server writes throws, and what is read can be told', () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        for (const value of [
          a,
          { task: { id: 'x', status: { state: 'completed', message: a }, artifacts: b, history: a } },
          { kind: 'message', parts: a, metadata: b },
        ]) {
          const event = readEvent(value);
          if (event?.kind === 'message') answerOf(event.message);
          else if (event) answersOf(after(null, event));
          readCard({ name: 'x', supportedInterfaces: a, additionalInterfaces: b, capabilities: a, url: b });
        }
      }),
    );
  });

  it('a NUL is not taken: nobody could keep it', () => {
    assert.equal(
      readEvent({ kind: 'message', messageId: 'm', role: 'agent', parts: [{ kind: 'text', text: 'a\u0000b' }] }),
      null,
    );
  });

  it('the same task gives the same keys, and ends with one reply', () => {
    const task = readTaskNow({ ...v1.task, status: { state: 'TASK_STATE_COMPLETED' } })!;
    assert.deepEqual(answersOf(task), answersOf(structuredClone(task)));
    assert.deepEqual(
      answersOf(task).map(({ kind }) => kind),
      ['reply'],
    );
  });
});

describe('an event stream', () => {
  it('is read alike however it is cut', () => {
    const text =
      ': hello\r\n\r\ndata: {"a":\ndata: "é😀"}\n\nevent: x\ndata:two\n\nid: 3\ndata: three\n\ndata: never ended';
    const bytes = Buffer.from(text);
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 20 }), (cuts) => {
        const read: string[] = [];
        const stream = new EventStream((data) => void read.push(data));
        const at = [0, ...cuts.sort((a, b) => a - b), bytes.length];
        for (let i = 1; i < at.length; i++) stream.push(bytes.subarray(at[i - 1], at[i]));
        assert.deepEqual(read, ['{"a":\n"é😀"}', 'two', 'three']);
      }),
    );
  });

  it('an event without an end is no event', () => {
    const stream = new EventStream(() => {});
    assert.throws(() => {
      for (let i = 0; i < 100; i++) stream.push(Buffer.alloc(100_000, 'x'));
    }, RangeError);
  });
});

describe('a zip of ours', () => {
  it('passes our own check, whatever it holds', () => {
    const name = fc.string({ minLength: 1, maxLength: 40, unit: 'binary' });
    fc.assert(
      fc.property(
        fc.array(fc.record({ name, data: fc.uint8Array({ maxLength: 300 }) }), { maxLength: 10 }),
        (files) => {
          const zip = storedZip(files.map((one) => ({ name: one.name, data: Buffer.from(one.data) })));
          assert.equal(zipFault(zip), undefined);
        },
      ),
    );
  });
});
