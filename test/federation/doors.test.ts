import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Client } from '../../src/client/index.ts';
import { eventually, person, team, testGateway } from '../support/gateway.ts';
import {
  type Answered,
  envelope,
  inA2a,
  inA2a03,
  linkPeer,
  type Peer,
  refusalOf,
  rows,
  says,
  sendSigned,
  sendTo,
  startPeer,
  tellLink,
} from '../support/peer.ts';

/** One gateway; initech (linked, with its eve) and stranger (not linked) write to it. */
const globex = await testGateway({ after }, { org: 'globex', admin: 'bob' });
const bob = new Client({ url: globex.url, token: globex.token, seal: false });
const initech: Peer = await startPeer({ after });
const stranger: Peer = await startPeer({ after });
const eve = initech.identity('agents:eve');
const mal = stranger.identity('agents:mal');
const bot = 'initech/dev/eve/bot';
const billing = 'globex/erp/bob/billing';
const hidden = 'globex/erp/bob/hidden';
const path = '/a2a/v1';

before(async () => {
  await team(globex, 'erp', ['bob']);
  await globex.admin.announce(billing, { allow: ['org:initech', 'team:erp'] });
  await globex.admin.announce(hidden, { allow: ['org:initech'] });
  await linkPeer(globex, initech, 'initech');
  await expose('erp/bob/billing', true);
});

async function expose(pattern: string, on: boolean): Promise<void> {
  await globex.admin.call('PUT', '/orgs/globex/links/initech/expose', { kind: 'agent', pattern, on });
}

async function unchanged<T>(work: () => Promise<T>): Promise<T> {
  const was = await rows(globex);
  const result = await work();
  assert.deepEqual(await rows(globex), was);
  return result;
}

/** Body and status of an answer, without what the caller itself wrote into the request. */
function seen({ status, json }: Answered): unknown {
  return { status, json };
}

describe('hidden, missing and unlinked are one thing to outsiders (FED-06)', () => {
  const places = {
    hidden,
    'missing agent': 'globex/erp/bob/nobody',
    'missing person': 'globex/erp/nobody/billing',
    'missing org': 'umbrella/erp/bob/billing',
    'missing session of a hidden agent': `${hidden}#s1`,
    'session of a missing agent': 'globex/erp/bob/nobody#s1',
    'hidden agent by its DID': `did:web:${globex.authority.replace(':', '%3A')}:agents:bob:erp:hidden`,
    'missing agent by its DID': `did:web:${globex.authority.replace(':', '%3A')}:agents:bob:erp:nobody`,
  };

  for (const [wire, send] of [
    [
      'A2A 1.0',
      (of: object, by: typeof eve, at = path) => sendSigned(globex, { path: at, body: inA2a(of as never) }, by),
    ],
    [
      'A2A 0.3',
      (of: object, by: typeof eve, at = path) => sendSigned(globex, { path: at, body: inA2a03(of as never) }, by),
    ],
    [
      'REDSYN',
      (of: object, by: typeof eve) => sendSigned(globex, { path: '/redsyn/v1/messages', body: JSON.stringify(of) }, by),
    ],
  ] as const) {
    it(`${wire}: from a linked org`, () =>
      unchanged(async () => {
        const answers = await Promise.all(Object.values(places).map((to) => send(envelope({ from: bot, to }), eve)));
        assert.equal(refusalOf(answers[0]!).code, 'address_not_found');
        for (const [i, answer] of answers.entries()) {
          assert.deepEqual(seen(answer), seen(answers[0]!), Object.keys(places)[i]);
        }
      }));

    it(`${wire}: from an org without a link, also to what others may see`, () =>
      unchanged(async () => {
        const from = 'umbrella/dev/mal/bot';
        const all = [billing, ...Object.values(places)];
        const answers = await Promise.all(all.map((to) => send(envelope({ from, to }), mal)));
        assert.equal(refusalOf(answers[0]!).code, 'address_not_found');
        for (const answer of answers) assert.deepEqual(seen(answer), seen(answers[0]!));
        const linked = await send(envelope({ from: bot, to: hidden }), eve);
        assert.deepEqual(seen(answers[0]!), seen(linked));
      }));
  }

  it('A2A: also when the path or the tenant names the agent, and `to` another one', () =>
    unchanged(async () => {
      const answers: Answered[] = [];
      for (const name of ['hidden', 'nobody']) {
        for (const to of [billing, hidden, 'globex/erp/bob/nobody']) {
          const of = (): never => envelope({ from: bot, to }) as never;
          answers.push(
            await sendSigned(globex, { path: `/a2a/v1/bob:erp:${name}`, body: inA2a(of()) }, eve),
            await sendSigned(globex, { path: `/agents/bob/erp/${name}`, body: inA2a(of()) }, eve),
            await sendSigned(globex, { path, body: inA2a(of(), { params: { tenant: `bob:erp:${name}` } }) }, eve),
          );
        }
      }
      for (const to of [hidden, 'globex/erp/bob/nobody']) {
        answers.push(
          await sendSigned(globex, { path: '/agents/bob/erp/billing', body: inA2a(envelope({ from: bot, to })) }, eve),
        );
      }
      for (const answer of answers) assert.deepEqual(seen(answer), seen(answers[0]!));
      assert.equal(refusalOf(answers[0]!).code, 'address_not_found');
    }));

  it('A2A: nobody in particular learns nothing either', () =>
    unchanged(async () => {
      const plain = JSON.stringify({
        jsonrpc: '2.0',
        id: 7,
        method: 'SendMessage',
        params: { message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hi' }] } },
      });
      const answers = await Promise.all(
        ['/agents/bob/erp/billing', '/agents/bob/erp/hidden', '/agents/bob/erp/nobody', '/agents/nobody'].map((at) =>
          sendTo(globex, { path: at, body: plain }),
        ),
      );
      for (const answer of answers) assert.deepEqual(seen(answer), seen(answers[0]!));
      assert.equal(refusalOf(answers[0]!).code, 'unauthenticated');
    }));

  it('the routes between gateways: one body', async () => {
    const q = '?org=globex&for=initech';
    const ask = (at: string, by: typeof eve): Promise<Answered> => sendSigned(globex, { method: 'GET', path: at }, by);
    const open = await ask(`/federation/v1/agents/erp/bob/billing${q}`, initech.instance);
    assert.equal(open.status, 200, open.text);
    const answers = await Promise.all([
      ask(`/federation/v1/agents/erp/bob/hidden${q}`, initech.instance),
      ask(`/federation/v1/agents/erp/bob/nobody${q}`, initech.instance),
      ask(`/federation/v1/agents/erp/bob/hidden/key${q}`, initech.instance),
      ask(`/federation/v1/agents/erp/bob/nobody/key${q}`, initech.instance),
      ask('/federation/v1/agents/erp/bob/billing?org=umbrella&for=initech', initech.instance),
      ask('/federation/v1/agents/erp/bob/billing?org=globex&for=acme', initech.instance),
      ask(`/federation/v1/agents/erp/bob/billing${q}`, stranger.instance),
      ask(`/federation/v1/agents/erp/bob/hidden${q}`, stranger.instance),
      ask(`/federation/v1/directory${q}`, stranger.instance),
      ask('/federation/v1/directory?org=umbrella&for=initech', initech.instance),
      ask('/federation/v1/directory', stranger.instance),
    ]);
    for (const answer of answers) assert.deepEqual(seen(answer), seen(answers[0]!));
    assert.equal(answers[0]!.status, 404);
    const list = await ask(`/federation/v1/directory${q}`, initech.instance);
    assert.deepEqual(
      list.json.agents.map((agent: { address: string }) => agent.address),
      [billing],
    );
  });

  it('the public documents: one body for hidden and missing, and no name in agents.json', async () => {
    for (const tail of ['did.json', 'agent-card.json', '.well-known/agent-card.json']) {
      const [one, other] = await Promise.all(
        ['hidden', 'nobody'].map((name) => sendTo(globex, { method: 'GET', path: `/agents/bob/erp/${name}/${tail}` })),
      );
      assert.deepEqual(seen(one!), seen(other!));
      assert.equal(one!.status, 404);
    }
    const { text } = await sendTo(globex, { method: 'GET', path: '/.well-known/agents.json' });
    assert.doesNotMatch(text, /hidden|billing/);
  });

  it('its own organisation is told what is wrong', async () => {
    const ana = await person(globex, 'ana');
    await ana.announce('globex/general/ana/asker');
    await assert.rejects(ana.send({ from: 'globex/general/ana/asker', to: hidden, text: 'hi' }), {
      status: 403,
      code: 'policy_denied',
      message: `${hidden} takes requests only from org initech`,
    });
  });

  it('calls between gateways are for the key of a gateway: an owner of it is refused', async () => {
    const answer = await sendSigned(
      globex,
      { method: 'GET', path: '/federation/v1/directory?org=globex&for=initech' },
      eve,
    );
    assert.deepEqual([answer.status, answer.json.error.code], [403, 'forbidden']);
  });
});

describe('a stranger that comes as itself', () => {
  it('leaves one connection request, whatever it sends and in whichever name of its own', async () => {
    const was = await rows(globex);
    const own = `did:web:${stranger.authority.replace(':', '%3A')}:agents:mal`;
    for (const from of [own, `${own}:agent`, `${own}:dev:bot`, own]) {
      const answer = await sendSigned(globex, { path, body: inA2a(envelope({ from, to: billing })) }, mal);
      assert.deepEqual(refusalOf(answer), { code: 'pending_connection', status: 200, gate: 'consent' });
    }
    assert.deepEqual(await rows(globex), { ...was, requests: was.requests! + 1 });
  });
});

describe('ids that senders choose (REL-07)', () => {
  it("another sender's id is no duplicate and tells nothing", async () => {
    const mallory = initech.identity('agents:mallory');
    const text = 'for billing alone';
    const first = envelope({
      from: bot,
      to: billing,
      id: 'm1',
      thread: 'secret-thread',
      body: { type: 'text/plain', text },
    });
    const one = await sendSigned(globex, { path, body: inA2a(first) }, eve);
    assert.equal(refusalOf(one).code, 'ok', one.text);
    const second = envelope({ from: 'initech/dev/mallory/bot', to: billing, id: 'm1' });
    const two = await sendSigned(globex, { path, body: inA2a(second) }, mallory);
    const note = two.json.result.task.metadata['https://gatehouse.dev/ext/redsyn/v1'];
    assert.equal(note.duplicate, false);
    assert.notEqual(two.json.result.task.id, one.json.result.task.id);
    assert.doesNotMatch(two.text, /secret-thread|for billing/);
    // Nor does the id of the first's task open it to anybody else.
    for (const by of [mallory, mal, undefined]) {
      const body = JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'GetTask',
        params: { id: one.json.result.task.id },
      });
      const got = by ? await sendSigned(globex, { path, body }, by) : await sendTo(globex, { path, body });
      const none = body.replace(one.json.result.task.id, '01J00000000000000000000000');
      const missing = by
        ? await sendSigned(globex, { path, body: none }, by)
        : await sendTo(globex, { path, body: none });
      assert.deepEqual(seen(got), seen(missing));
    }
    // An answer that names the id alone is not guessed: it must say which of the two.
    await assert.rejects(
      globex.admin.call('POST', '/messages', {
        v: 1,
        kind: 'reply',
        from: billing,
        reply_to: 'm1',
        body: { type: 'text/plain', text: 'to whom?' },
      }),
      { status: 409, code: 'conflict' },
    );
  });
});

describe('threads (design §4)', () => {
  it("nobody enters another's conversation: not by its id, its session, or the thread that the other wrote", async () => {
    const victim = initech.identity('agents:vic');
    const mallory = initech.identity('agents:mallory4');
    const asked = envelope({ from: 'initech/dev/vic/bot', to: billing, thread: 'our-thread' });
    const first = await sendSigned(globex, { path, body: inA2a(asked) }, victim);
    const note = first.json.result.task.metadata['https://gatehouse.dev/ext/redsyn/v1'];
    const item = await taken(asked.id as string);
    const [, session] = /#(s\d+)$/.exec(note.to)!;

    for (const thread of [item.thread, 'our-thread', first.json.result.task.id, asked.id as string]) {
      const of = envelope({ from: 'initech/dev/mallory4/bot', to: billing, thread });
      const answer = await sendSigned(globex, { path, body: inA2a(of) }, mallory);
      assert.equal(refusalOf(answer).code, 'ok', answer.text);
      const got = await taken(of.id as string);
      assert.notEqual(got.thread, item.thread);
      assert.notEqual(got.to, item.to);
      // As A2A contextId, which rules over the envelope's own.
      const other = envelope({ from: 'initech/dev/mallory4/bot', to: billing });
      await sendSigned(globex, { path, body: inA2a(other, { message: { contextId: thread } }) }, mallory);
      assert.notEqual((await taken(other.id as string)).thread, item.thread);
    }
    const into = envelope({ from: 'initech/dev/mallory4/bot', to: `${billing}#${session}` });
    const refused = await unchanged(() => sendSigned(globex, { path, body: inA2a(into) }, mallory));
    const none = envelope({ from: 'initech/dev/mallory4/bot', to: `${billing}#s99999` });
    const missing = await unchanged(() => sendSigned(globex, { path, body: inA2a(none) }, mallory));
    assert.equal(refusalOf(refused).code, 'address_not_found');
    assert.deepEqual(seen(refused), seen(missing));

    // The victim's own follow-up, by its own word, goes where it went; so does one by our id once it was told.
    for (const thread of ['our-thread', item.thread]) {
      const more = envelope({ from: 'initech/dev/vic/bot', to: billing, thread });
      await sendSigned(globex, { path, body: inA2a(more) }, victim);
      assert.equal((await taken(more.id as string)).to, item.to);
    }
  });

  it('between two people of one gateway too', async () => {
    const ivy = await person(globex, 'ivy', 'erp');
    const jon = await person(globex, 'jon', 'erp');
    await ivy.announce('globex/erp/ivy/desk');
    await jon.announce('globex/erp/jon/desk');
    const asked = await ivy.send({ from: 'globex/erp/ivy/desk', to: billing, text: 'between us', thread: 'ivy-1' });
    const item = await taken(asked.id);
    const forged = await jon.send({ from: 'globex/erp/jon/desk', to: billing, text: 'me too', thread: item.thread });
    const got = await taken(forged.id);
    assert.notEqual(got.thread, item.thread);
    assert.notEqual(got.to, item.to);
    await assert.rejects(jon.call('GET', `/threads/${item.thread}`).then(onlyJon), { status: 404 });
    await assert.rejects(jon.send({ from: 'globex/erp/jon/desk', to: item.to, text: 'by session' }), { status: 404 });
  });
});

function onlyJon(view: { messages?: Array<{ body: { text: string } }> }): never {
  for (const { body } of view.messages ?? []) assert.equal(body.text, 'me too');
  throw Object.assign(new Error('only his own'), { status: 404 });
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers
async function taken(id: string, agent = billing): Promise<any> {
  return eventually(`message ${id}`, async () => {
    const { json } = await globex.call('GET', `/redsyn/v1/inbox/${agent}?peek=1&max=100`);
    return json.items.find((one: { id: string }) => one.id === id);
  });
}

describe('a partner by name', () => {
  it('nobody here can take the name of a linked org, to speak as it or to catch what is for it', async () => {
    const zoe = await person(globex, 'zoe');
    const made = await zoe.call('POST', '/orgs', { handle: 'initech', me: 'eve' }).catch((error) => error);
    assert.equal(made.status, 409, JSON.stringify(made));
    const alias = initech.authority.replace(':', '-');
    const other = await zoe.call('POST', '/orgs', { handle: alias, me: 'eve' }).catch((error) => error);
    assert.ok([409, 422].includes(other.status));
  });

  it('an org here that bears the name all the same (it was there by a race) is not taken for the partner', async () => {
    const yan = await person(globex, 'yan');
    await yan.call('POST', '/orgs', { handle: 'initech2', me: 'eve' });
    await globex.database.db.query(`update orgs set handle = 'initech' where handle = 'initech2'`);
    try {
      await yan.announce('initech/general/eve/bot');
      await unchanged(() =>
        assert.rejects(yan.send({ from: 'initech/general/eve/bot', to: billing, text: 'it is me' }), {
          status: 404,
          code: 'address_not_found',
        }),
      );
    } finally {
      await globex.database.db.query(`update orgs set handle = 'initech2' where handle = 'initech'`);
    }
  });

  it('the partner cannot change its own name once both agreed', async () => {
    const answer = await tellLink(globex, initech, 'umbrella', { want: true });
    assert.ok(answer.status < 300, answer.text);
    const { links } = await globex.admin.call<{ links: Array<{ other: string; domain: string }> }>('GET', '/links');
    assert.deepEqual(
      links.filter((link) => link.domain === initech.authority).map((link) => link.other),
      ['initech'],
    );
    const of = envelope({ from: 'umbrella/dev/eve/bot', to: billing });
    const spoken = await unchanged(() => sendSigned(globex, { path, body: inA2a(of) }, eve));
    assert.equal(refusalOf(spoken).code, 'sender_mismatch');
    await tellLink(globex, initech, 'initech', { want: true });
  });
});

describe('rules of the link', () => {
  it('only sealed messages enter by default; answers too, in whichever name', async () => {
    const loose = envelope({ from: bot, to: billing }, { sealed: false });
    const answer = await unchanged(() => sendSigned(globex, { path, body: inA2a(loose) }, eve));
    assert.deepEqual(refusalOf(answer), { code: 'policy_denied', status: 200, gate: 'link' });
    const swapped = { ...envelope({ from: bot, to: billing }), body: { type: 'text/plain', text: 'swapped' } };
    const broken = await unchanged(() => sendSigned(globex, { path, body: inA2a(swapped) }, eve));
    assert.deepEqual(refusalOf(broken), { code: 'envelope_signature_invalid', status: 401, gate: 'integrity' });
  });

  it('only from listed addresses', async () => {
    await globex.admin.call('PUT', '/orgs/globex/links/initech/rules', { ips: '203.0.113.7' });
    const answer = await unchanged(() =>
      sendSigned(
        globex,
        { path, body: inA2a(envelope({ from: bot, to: billing })), headers: { 'x-forwarded-for': '203.0.113.7' } },
        eve,
      ),
    );
    assert.deepEqual(refusalOf(answer), { code: 'policy_denied', status: 200, gate: 'link' });
    await globex.admin.call('PUT', '/orgs/globex/links/initech/rules', { ips: '' });
  });
});

describe('a link that is revoked', () => {
  it('closes at once, for requests and for answers that were under way, in both directions', async () => {
    // What is asked of the partner before: it takes it, and answers after.
    initech.answer(path, says({ jsonrpc: '2.0', id: 1, result: { task: { id: 't', metadata: {} } } }));
    const asked = await bob.send({ from: billing, to: bot, text: 'Are you there?' });
    // What it asked before, and is answered after.
    const question = envelope({ from: bot, to: billing });
    assert.equal(refusalOf(await sendSigned(globex, { path, body: inA2a(question) }, eve)).code, 'ok');
    const item = await taken(question.id as string);
    // What waits for it because it is away.
    initech.answer(path, says({}, 503));
    const waiting = await bob.send({ from: billing, to: bot, text: 'This must not leave any more' });

    await globex.admin.call('POST', '/orgs/globex/links/initech/revoke');
    const before = initech.requests.length;
    initech.answer(path, says({ jsonrpc: '2.0', id: 1, result: { task: { id: 't', metadata: {} } } }));

    const own = `did:web:${initech.authority.replace(':', '%3A')}:agents:eve:dev:bot`;
    await unchanged(async () => {
      const request = await sendSigned(globex, { path, body: inA2a(envelope({ from: bot, to: billing })) }, eve);
      assert.equal(refusalOf(request).code, 'address_not_found');
      for (const from of [bot, own, initech.authority.replace(/$/, '/dev/eve/bot')]) {
        for (const kind of ['progress', 'reply']) {
          const of = envelope({ kind, from, reply_to: asked.id });
          const answer = await sendSigned(globex, { path, body: inA2a(of) }, eve);
          assert.ok(
            ['address_not_found', 'not_found', 'sender_mismatch'].includes(refusalOf(answer).code),
            `${from}: ${answer.text}`,
          );
        }
      }
    });
    // Ours neither.
    const reply = await bob.reply(item, 'too late').catch((error) => error);
    assert.ok([404, 409].includes(reply.status), JSON.stringify(reply));
    await assert.rejects(bob.send({ from: billing, to: bot, text: 'and now?' }), { status: 404 });

    // It calls, so that all that waits for it is due.
    await tellLink(globex, initech, 'initech', { want: false });
    await eventually('the sender is told', async () => {
      const { items } = (await globex.call('GET', `/redsyn/v1/inbox/${billing}?peek=1&reply_to=${waiting.id}`)).json;
      return items.find((one: { kind: string; error: boolean }) => one.kind === 'reply' && one.error);
    });
    assert.deepEqual(
      initech.requests.slice(before).filter((one) => one.path === path),
      [],
    );
  });
});
