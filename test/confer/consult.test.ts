import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { team, testGateway } from '../support/gateway.ts';
import { befriend, conferPeer } from './peer.ts';

const globex = await testGateway({ after }, { org: 'globex', admin: 'bob' });
const zoe = await conferPeer({ after });
let peerId: string;

before(async () => {
  await team(globex, 'erp', ['bob']);
  await globex.admin.announce('globex/erp/bob/billing');
  peerId = await befriend(globex, 'bob', zoe.agent);
});

const consult = (body: object, id = peerId) => globex.call('POST', `/api/v1/consult/${id}`, { body });
const reply = (conversation: string, query: string) =>
  globex.call('GET', `/api/v1/consult/${conversation}/reply?${query}`);

it('asks as the default agent, holds the poll until the answer is there, and shows the conversation', async () => {
  const sent = await consult({ question: 'Why?', code_context: 'let a = 1;', language: 'en' });
  assert.equal(sent.status, 201, sent.text);
  const { conversation_id, message_id, status } = sent.json;
  assert.equal(status, 'sent');
  const [brought] = await zoe.next(1);
  assert.equal(brought!.thread_id, conversation_id);
  assert.equal(brought!.from, `${globex.did}:agents:bob:erp:billing`);
  assert.equal(brought!.message.content, 'Why?\n\n---\n```\nlet a = 1;\n```');
  assert.deepEqual((await reply(conversation_id, `after=${message_id}&wait=0`)).json, { status: 'pending' });
  const polling = reply(conversation_id, `after=${message_id}&wait=20`);
  const said = { type: 'answer', content: 'Because.' };
  assert.equal((await zoe.say(globex, brought!.from, said, { thread_id: conversation_id })).status, 201);
  const { json } = await polling;
  assert.equal(json.status, 'answered');
  assert.deepEqual(
    [json.message.content, json.message.content_type, json.message.in_reply_to],
    ['Because.', 'text', message_id],
  );
  const shown = await globex.call('GET', `/api/v1/consult/${conversation_id}`);
  assert.deepEqual(
    shown.json.messages.map((one: { sender_type: string }) => one.sender_type),
    ['user', 'peer_agent'],
  );
});

it('a failure is the answer, as a notice with its code', async () => {
  const { conversation_id, message_id } = (await consult({ question: 'And?' })).json;
  const failed = { type: 'notification', content: 'No model.', context: { error: 'no_model_configured' } };
  await zoe.say(globex, `${globex.did}:agents:bob`, failed, { thread_id: conversation_id });
  const { json } = await reply(conversation_id, `after=${message_id}&wait=5`);
  assert.equal(json.message.content_type, 'system_notice');
  assert.deepEqual(json.message.content_json, { kind: 'a2a_turn_failed', error: 'no_model_configured' });
});

it('refuses who is no contact, unknown cursors and conversations, bad bodies and strangers', async () => {
  const codeOf = ({ status, json }: Awaited<ReturnType<typeof consult>>) => [status, json.error?.code];
  assert.deepEqual(codeOf(await consult({ question: 'x' }, '01JGHQ6Z4E8X2V5T9RB3KC7MDA')), [403, 'not_a_contact']);
  assert.deepEqual(codeOf(await consult({})), [400, 'validation_error']);
  const { conversation_id } = (await consult({ question: 'x' })).json;
  assert.deepEqual(codeOf(await reply(conversation_id, 'after=nothing')), [400, 'unknown_cursor']);
  assert.deepEqual(codeOf(await reply('nowhere', '')), [404, 'not_found']);
  assert.deepEqual(codeOf(await globex.call('GET', `/api/v1/consult/${conversation_id}`, { token: null })), [
    401,
    'unauthorized',
  ]);
  zoe.respond(403, { error: { code: 'policy_denied', message: 'no' } });
  const refused = await consult({ question: 'x' });
  assert.deepEqual([refused.status, refused.json.status, refused.json.error.code], [502, 'failed', 'policy_denied']);
});
