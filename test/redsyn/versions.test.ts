import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, describe, it } from 'node:test';
import { testGateway } from '../support/gateway.ts';

const gateway = await testGateway({ after });
const agent = 'acme/general/joel/reviewer';
await gateway.admin.announce(agent);

const date = '2026-09-25';

/** Every call of the document's tables, and what goes with them (design §7, §10). */
const calls = `
  PUT /agents/${agent}
  GET /agents/${agent}
  GET /agents/${agent}/key
  GET /directory
  GET /me
  POST /messages
  GET /inbox/${agent}
  POST /inbox/${agent}/ack
  GET /messages/m1/files
  POST /messages/m1/cancel
  GET /threads/m1
  GET /agents/${agent}/sessions/s1
  PUT /agents/${agent}/sessions/s1
  POST /agents/${agent}/sessions/s1/close
  PUT /subscriptions
  POST /subscriptions/remove
  GET /topics
  PUT /agents/${agent}/webhook
  DELETE /agents/${agent}/webhook
  POST /orgs
  POST /orgs/acme/teams
  POST /orgs/acme/teams/general/members
  POST /orgs/acme/invites
  POST /orgs/acme/join
  GET /orgs/acme/usage
  POST /orgs/acme/links
  PUT /orgs/acme/links/globex/expose
  PUT /orgs/acme/links/globex/rules
  POST /orgs/acme/links/globex/revoke
  GET /links
  PUT /nodes/key
  POST /nodes
  GET /nodes
  DELETE /nodes/n1
  POST /login`
  .trim()
  .split('\n')
  .map((line) => line.trim().split(' ') as [method: string, path: string]);

describe('Redsyn-Version', () => {
  it('stands in every answer of every call: what was done, what was refused, what was not understood', async () => {
    for (const [method, path] of calls) {
      const name = `${method} ${path}`;
      const at = `/redsyn/v1${path}`;
      const nobody = await gateway.call(method, at, { token: null });
      assert.notEqual(nobody.status, 404, `${name} is there`);
      const stranger = await gateway.call(method, at, { token: 'ghn_nobody' });
      const hasBody = method === 'PUT' || method === 'POST';
      const answers = [nobody, stranger];
      if (hasBody) {
        for (const body of ['{', '[]', '{"a":1,"a":2}', '{}']) answers.push(await gateway.call(method, at, { body }));
        answers.push(await gateway.call(method, at, { body: '{}', headers: { 'content-type': 'text/html' } }));
      } else {
        answers.push(await gateway.call(method, at));
      }
      for (const { status, headers } of answers) assert.equal(headers.get('redsyn-version'), date, `${name} ${status}`);
    }
  });

  it('a known date is used and said; an unknown one is refused with 400 and the list of the known ones, before anything is done', async () => {
    for (const [method, path] of calls) {
      const name = `${method} ${path}`;
      const hasBody = method === 'PUT' || method === 'POST';
      for (const [asked, token] of [
        ['2026-09-26', gateway.token],
        ['2026-09-26', null],
        ['yesterday', gateway.token],
        ['', gateway.token],
      ] as const) {
        const refused = await gateway.call(method, `/redsyn/v1${path}`, {
          token,
          headers: { 'redsyn-version': asked },
          ...(hasBody && { body: {} }),
        });
        assert.deepEqual([refused.status, refused.json.status], [400, 400], name);
        assert.deepEqual(refused.json.known, [date], name);
        assert.match(refused.json.error, /2026-09-25/);
        assert.equal(refused.headers.get('redsyn-version'), date, name);
      }
    }
    const { json, headers } = await gateway.call('GET', '/redsyn/v1/me', { headers: { 'redsyn-version': date } });
    assert.equal(headers.get('redsyn-version'), date);
    assert.deepEqual(json.versions, { known: [date], current: date });
  });

  it('stands in what no call answers: a path that is not there, another method, a body that is too large', async () => {
    const answers = [
      [404, await gateway.call('GET', '/redsyn/v1/nothing')],
      [404, await gateway.call('GET', '/redsyn')],
      [404, await gateway.call('GET', '/redsyn/v2/me')],
      [405, await gateway.call('DELETE', '/redsyn/v1/me')],
      [204, await gateway.call('OPTIONS', '/redsyn/v1/me')],
      [413, await gateway.call('POST', '/redsyn/v1/orgs', { body: { handle: 'x'.repeat(200_000) } })],
      [413, await gateway.call('POST', '/redsyn/v1/messages', { body: { x: 'x'.repeat(9_000_000) } })],
    ] as const;
    for (const [status, answer] of answers) {
      assert.equal(answer.status, status);
      assert.equal(answer.headers.get('redsyn-version'), date, String(status));
      if (status !== 204) assert.deepEqual([answer.json.status, typeof answer.json.error], [status, 'string']);
    }
    assert.match(answers[3][1].headers.get('allow')!, /GET/);
  });

  it('stands in what is refused before its path was looked at', async () => {
    const { port } = new URL(gateway.url);
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () =>
        socket.write('GET /redsyn/v1/me HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n'),
      );
      let text = '';
      socket.on('data', (data) => {
        text += data.toString();
      });
      socket.on('end', () => resolve(text));
      socket.on('error', reject);
    });
    assert.match(answer, /^HTTP\/1\.1 400/);
    assert.match(answer, /redsyn-version: 2026-09-25/i);
  });

  it('without the header the date rules that an organisation was pinned to when it was made', async () => {
    await gateway.admin.call('POST', '/orgs', { handle: 'older', me: 'joel' });
    const made = await gateway.database.db.query(`select distinct api_version from orgs`);
    assert.deepEqual(made.rows, [{ api_version: date }]);
    // As an organisation of an earlier time would have it.
    await gateway.database.db.query(`update orgs set api_version = '2025-01-01' where handle = 'older'`);
    const older = await gateway.call('GET', '/redsyn/v1/orgs/older/usage');
    assert.equal(older.headers.get('redsyn-version'), '2025-01-01');
    assert.equal((await gateway.call('GET', '/redsyn/v1/orgs/acme/usage')).headers.get('redsyn-version'), date);
    const asked = await gateway.call('GET', '/redsyn/v1/orgs/older/usage', { headers: { 'redsyn-version': date } });
    assert.equal(asked.headers.get('redsyn-version'), date);

    const agent = 'older/general/joel/one';
    await gateway.admin.announce(agent);
    const body = { v: 1, id: 'v1', kind: 'request', from: agent, to: agent, body: { type: 'text/plain', text: 'x' } };
    const sent = await gateway.call('POST', '/redsyn/v1/messages', { body });
    assert.deepEqual([sent.status, sent.headers.get('redsyn-version')], [201, '2025-01-01']);
  });

  it('`v` is always 1; fields that v1 does not know are passed on, and new ones are optional', async () => {
    const body = {
      v: 1,
      id: 'v2',
      kind: 'request',
      from: agent,
      to: agent,
      body: { type: 'text/plain', text: 'x', mood: 'fine' },
      colour: 'blue',
    };
    assert.equal((await gateway.call('POST', '/redsyn/v1/messages', { body })).status, 201);
    const { json } = await gateway.call('GET', `/redsyn/v1/inbox/${agent}`);
    assert.deepEqual([json.items[0].colour, json.items[0].body.mood, json.items[0].v], ['blue', 'fine', 1]);
    for (const v of [2, '1', null, undefined]) {
      const refused = await gateway.call('POST', '/redsyn/v1/messages', { body: { ...body, v } });
      assert.deepEqual([refused.status, refused.json.field], [422, 'v']);
    }
  });
});
