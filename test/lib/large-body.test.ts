import assert from 'node:assert/strict';
import { type AddressInfo, connect } from 'node:net';
import { after, describe, it } from 'node:test';
import fc from 'fast-check';
import { readJson, replaceValue } from '../../src/lib/json.ts';
import { createLog } from '../../src/lib/log.ts';
import { refuse } from '../../src/lib/refusal.ts';
import { Turns } from '../../src/lib/turns.ts';
import { createFront } from '../../src/wires/front.ts';

describe('bodies larger than a route takes from everybody', () => {
  let asked = 0;
  let handled = 0;
  let open = 0;
  let most = 0;
  let hold: Promise<void> = Promise.resolve();
  const front = createFront({
    routes: [
      {
        method: 'POST',
        path: '/in',
        maxBody: 100,
        large: {
          maxBody: 1_000,
          async allow({ headers, body }) {
            asked++;
            assert.equal(body.length, 0);
            return headers.get('authorization') === 'yes' ? undefined : refuse('unauthenticated');
          },
        },
        async handler({ body }) {
          handled++;
          most = Math.max(most, ++open);
          await hold;
          open--;
          return { status: 200, body: String(body.length) };
        },
      },
    ],
    renderers: { '/': ({ status, code }) => ({ status, body: code }) },
    trustProxy: [],
    scheme: 'http',
    requestId: () => 'r',
    log: createLog({ level: 'silent' }),
    limits: { largeBodies: 2 },
  });
  const url = new Promise<string>((resolve) => {
    front.server.listen(0, '127.0.0.1', () =>
      resolve(`http://127.0.0.1:${(front.server.address() as AddressInfo).port}/in`),
    );
  });
  after(() => front.close(0));

  const post = async (bytes: number, authorization?: string): Promise<[number, string]> => {
    const response = await fetch(await url, {
      method: 'POST',
      body: 'x'.repeat(bytes),
      ...(authorization && { headers: { authorization } }),
    });
    return [response.status, await response.text()];
  };

  it('a small one costs no question, a large one is asked about, one that is too large is refused unasked', async () => {
    assert.deepEqual(await post(100), [200, '100']);
    assert.equal(asked, 0);
    assert.deepEqual(await post(101, 'yes'), [200, '101']);
    assert.deepEqual(await post(1_000, 'yes'), [200, '1000']);
    assert.equal(asked, 2);
    assert.deepEqual(await post(1_001, 'yes'), [413, 'payload_too_large']);
    assert.equal(asked, 2);
  });

  it('who may not is told so before a byte is read', async () => {
    const before = handled;
    const { port } = new URL(await url);
    const head = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () =>
        socket.write('POST /in HTTP/1.1\r\nHost: a.test\r\nContent-Length: 900\r\n\r\n'),
      );
      socket.setEncoding('utf8').once('data', resolve).on('error', reject);
      socket.once('data', () => socket.destroy());
    });
    assert.match(String(head), / 401 /);
    assert.equal(handled, before);
  });

  it('without a length it may be of any size, so it is asked about', async () => {
    const stream = (bytes: number, authorization: string) =>
      url.then((target) =>
        fetch(target, {
          method: 'POST',
          headers: { authorization },
          body: new ReadableStream({
            start(controller) {
              controller.enqueue(new TextEncoder().encode('x'.repeat(bytes)));
              controller.close();
            },
          }),
          duplex: 'half',
        } as RequestInit),
      );
    assert.equal((await stream(5, 'no')).status, 401);
    assert.equal(await (await stream(900, 'yes')).text(), '900');
    assert.equal((await stream(1_001, 'yes')).status, 413);
  });

  it('so many are in hand at once, the others wait for their turn', async () => {
    let release = (): void => {};
    hold = new Promise((resolve) => {
      release = resolve;
    });
    most = 0;
    const answers = Promise.all(Array.from({ length: 6 }, () => post(500, 'yes')));
    for (let i = 0; i < 300 && open < 2; i++) await new Promise((resolve) => setTimeout(resolve, 10));
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(open, 2);
    release();
    assert.ok((await answers).every(([status]) => status === 200));
    assert.equal(most, 2);
  });
});

it('Turns: a turn that fails makes room like any other', async () => {
  const turns = new Turns(1);
  const failed = turns.take(() => Promise.reject(new Error('no')));
  const next = turns.take(async () => 'next');
  await assert.rejects(failed, /no/);
  assert.equal(await next, 'next');
});

it('a value inside a JSON text is written anew, and nothing else changes', () => {
  const text = ' {"a" : 1.0 , "files":{"zip":"x}\\"{"} , "b":[ 1e3 ]}\n';
  assert.equal(replaceValue(text, ['files'], '{"bytes":1}'), ' {"a" : 1.0 , "files":{"bytes":1} , "b":[ 1e3 ]}\n');
  assert.equal(replaceValue(text, ['none'], '0'), undefined);
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), fc.jsonValue(), (rest, value, next) => {
      const whole = JSON.stringify({ ...rest, files: value }, null, 1);
      assert.ok('value' in readJson(whole));
      const written = replaceValue(whole, ['files'], JSON.stringify(next))!;
      assert.deepEqual(JSON.parse(written), JSON.parse(JSON.stringify({ ...rest, files: next })));
      assert.equal(replaceValue(written, ['files'], JSON.stringify(value, null, 1).replaceAll('\n', '\n ')), whole);
    }),
  );
});
