import { createHash } from 'node:crypto';
import { fullAddress, pathOf, personOf, seatOf, withoutSession } from './addresses.ts';
import { Answers, type Asked, type WaitOptions, whileAway } from './answers.ts';
import { Api, type ApiOptions, type TakeOptions } from './api.ts';
import { answerId, bodyOf, newMessageId, readAnswer, signedEnvelope, textOf, verify } from './envelope.ts';
import { GatehouseError, KeyChangedError, NotAnsweredError, SealError } from './errors.ts';
import { Listener, type ListenOptions } from './listen.ts';
import { memoryPins, type PinStore } from './pins.ts';
import { type AgentKey, type CheckedKey, checkAgentKey, isSealed, open, openZip, seal } from './seal.ts';
import type { Answer, Body, DeliveredEnvelope, Handler, Outgoing, Received, Sent } from './types.ts';

export interface ClientOptions extends ApiOptions {
  /** Which key belongs to whom. Default: remembered while the process lives ({@link memoryPins}); {@link filePins} outlives it. */
  pins?: PinStore;
  /** False: nothing is sealed unless a message asks for it. */
  seal?: boolean;
  /** Whether two names of an org mean the same one (its handle and its domain), for checking signatures. */
  sameOrg?: (signed: string, shown: string) => boolean;
}

interface Content {
  body: Body;
  refs?: unknown[] | undefined;
  files?: Uint8Array | undefined;
}

/** A REDSYN client over HTTP: it only calls out, so that an agent behind NAT works like any server. */
export class Client extends Api {
  readonly pins: PinStore;
  readonly #seals: boolean;
  readonly #ownNames: readonly string[];
  readonly #sameOrg: (signed: string, shown: string) => boolean;
  readonly #answers: Answers;

  /** Of opened envelopes, so that an answer to one is sealed however it is named. */
  readonly #replyKeys = new WeakMap<DeliveredEnvelope, string>();

  constructor(options: ClientOptions) {
    super(options);
    const { host } = new URL(options.url);
    this.pins = options.pins ?? memoryPins(() => this.clock.now());
    this.#seals = options.seal ?? true;
    this.#ownNames = [host, host.replace(':', '-')];
    this.#sameOrg = options.sameOrg ?? (() => false);
    this.#answers = new Answers({
      clock: this.clock,
      pins: this.pins,
      take: (agent, take) => this.take(agent, take),
      ack: (agent, ids) => this.ack(agent, ids),
      thread: (id) => this.thread(id),
      receive: (raw) => this.receive(raw),
      pause: (fault, attempt) => this.http.pause(fault, attempt, whileAway),
    });
  }

  /** Sends a request: signed, and sealed when the agent has a key. Throws {@link KeyChangedError} when that key is not the pinned one. */
  async send(message: Outgoing): Promise<Sent> {
    const { from, to } = this.#ends(message);
    const { id = newMessageId(), thread, ttl } = message;
    const key = await this.#keyFor(message, to);
    const hops = hopsOf(message.because);
    const draft = {
      id,
      kind: 'request',
      from,
      to,
      ...(thread !== undefined && { thread }),
      ...(ttl && { ttl }),
      ...(hops.length > 0 && { hops }),
    };
    return this.#post(draft, { body: bodyOf(message), refs: message.refs, files: message.files }, key?.encKey);
  }

  /** Sends and waits for the reply. Throws {@link NotAnsweredError}; a reply with `error` is returned like any other. */
  async sendAndWait(message: Outgoing, options: WaitOptions = {}): Promise<Received> {
    const sent = await this.send({ ...message, id: message.id ?? newMessageId() });
    const asked = { ...this.#ends(message), thread: sent.thread };
    return this.#answers.wait(sent.id, asked, options, false);
  }

  /** The reply to a request that was sent earlier, also when it was taken before. `to`, when given, is who must have signed it. */
  waitFor(id: string, asked: Partial<Asked>, options: WaitOptions = {}): Promise<Received> {
    return this.#answers.wait(id, { ...asked, from: asked.from ?? this.ownAgent() }, options, true);
  }

  /** Opens and checks what was taken, or came by webhook. Pins the sender's key on first use. Throws nothing: see `trouble`. */
  async receive(raw: DeliveredEnvelope): Promise<Received> {
    const sealed = isSealed(raw);
    const opened = sealed ? this.#open(raw) : undefined;
    const letter = typeof opened === 'object' ? opened : undefined;
    const envelope = letter ? { ...raw, body: letter.body as Body, refs: [...letter.refs] } : raw;
    if (letter) this.#replyKeys.set(envelope, letter.reply_key);
    const signer = raw.sig ? verify(raw, (signed, shown) => this.#isSameOrg(raw, signed, shown)) : undefined;
    const isSigner = typeof signer === 'object';
    const verdict = isSigner ? await this.pins.check(signer.person, signer.key) : undefined;
    const trouble =
      verdict === 'changed'
        ? new KeyChangedError((signer as { person: string }).person, (signer as { fingerprint: string }).fingerprint)
            .message
        : [signer, opened].find((each) => typeof each === 'string');
    let zip: Promise<Buffer> | undefined;
    return {
      envelope,
      raw,
      text: textOf(envelope.body),
      sealed,
      verified: verdict === 'new' || verdict === 'known',
      ...(isSigner && { signer }),
      ...(typeof trouble === 'string' && { trouble }),
      ...(letter && { replyKey: letter.reply_key }),
      files: async () => {
        if (!raw.files) return undefined;
        zip ??= this.files(raw);
        zip.catch(() => {
          zip = undefined;
        });
        return zip;
      },
    };
  }

  /** Ends a request with an answer, sealed when the request was. The id follows from the request's: a repeat is the same answer. */
  async reply(request: Received | DeliveredEnvelope, answer: Answer): Promise<Sent> {
    const { envelope, replyKey } = this.#asked(request);
    const { body, error, refs, files } = readAnswer(answer);
    const draft = { id: answerId(envelope), kind: 'reply', ...answering(envelope), ...(error && { error }) };
    return this.#post(draft, { body, refs, files }, replyKey);
  }

  /** Tells the asker how far it is; the request stays open. */
  async progress(request: Received | DeliveredEnvelope, text: string, data?: unknown): Promise<void> {
    const { envelope, replyKey } = this.#asked(request);
    const body = { type: 'text/plain', text, ...(data !== undefined && { data }) };
    await this.#post({ id: newMessageId(), kind: 'progress', ...answering(envelope) }, { body }, replyKey);
  }

  /**
   * Takes requests and answers them with what the handler gives, until `signal` aborts. A handler that throws answers with an error reply;
   * one that gives nothing confirms without an answer. A gateway that is away is tried again, and an answer that was made is kept until
   * it is sent. Rejects when the gateway refuses for good.
   */
  async listen(address: string, handler: Handler, options: ListenOptions = {}): Promise<void> {
    if (options.announce) {
      if (this.keys) await this.registerKeys();
      await this.announce(address, options.announce);
    }
    const mailbox = {
      clock: this.clock,
      take: (take: TakeOptions) => this.take(address, take),
      ack: (id: string) => this.ack(address, [id]),
      // A take that finds nothing is a heartbeat like any other (REDSYN "Agentes y presencia").
      beat: async () => void (await this.take(address, { lease: 1, replyTo: 'heartbeat' })),
      receive: (raw: DeliveredEnvelope) => this.receive(raw),
      reply: (request: Received, answer: Answer) => this.reply(request, answer),
      progress: (request: Received, text: string, data?: unknown) => this.progress(request, text, data),
      claim: (item: DeliveredEnvelope) => this.#answers.claim(address, item),
      pause: (fault: unknown, attempt: number) => this.http.pause(fault, attempt, whileAway),
    };
    await new Listener(mailbox, handler, options).run();
  }

  /** The zip of a message. Given the envelope, it is checked against what was announced, and opened when it is sealed. */
  async files(message: string | DeliveredEnvelope): Promise<Buffer> {
    const id = typeof message === 'string' ? message : message.id;
    // Two senders may have chosen the same id.
    const from = typeof message === 'string' ? '' : `?${new URLSearchParams({ from: withoutSession(message.from) })}`;
    const { zip } = await this.read<{ zip: string }>(`/messages/${encodeURIComponent(id)}/files${from}`);
    const bytes = Buffer.from(zip, 'base64');
    if (typeof message === 'string') return bytes;
    const announced = message.files?.sha256;
    if (announced !== undefined && createHash('sha256').update(bytes).digest('hex') !== announced) {
      throw new SealError(`the files of ${id} are not the ones that were announced`);
    }
    return isSealed(message) ? openZip(message, bytes, this.ownKeys()) : bytes;
  }

  /** Publishes an event to `topic:org/team/name`. Signed; never sealed, since many read it. */
  async publish(
    topic: string,
    event: Pick<Outgoing, 'from' | 'text' | 'data' | 'body' | 'id' | 'ttl' | 'refs'>,
  ): Promise<Sent> {
    const { from, to } = this.#ends({ ...event, to: topic.startsWith('topic:') ? topic : `topic:${topic}` });
    const draft = { id: event.id ?? newMessageId(), kind: 'event', from, to, ...(event.ttl && { ttl: event.ttl }) };
    return this.#post(draft, { body: bodyOf(event), refs: event.refs }, undefined);
  }

  /**
   * The key to seal a message for an agent with: its proof holds, and its signing key is pinned for the person. Undefined: the agent has none.
   * Throws {@link KeyChangedError} and {@link SealError}.
   */
  async agentKey(address: string): Promise<CheckedKey | undefined> {
    if (!seatOf(address)) return undefined;
    const key = await this.read<AgentKey>(`/agents/${pathOf(address)}/key`).catch((fault: unknown) => {
      if (fault instanceof GatehouseError && fault.status === 404) return undefined;
      throw fault;
    });
    const checked = key && checkAgentKey(key);
    if (!checked) return undefined;
    const person = personOf(address);
    if ((await this.pins.check(person, checked.signingKey)) === 'changed') {
      throw new KeyChangedError(person, checked.fingerprint);
    }
    return checked;
  }

  async #keyFor({ plain, sealed }: Outgoing, to: string): Promise<CheckedKey | undefined> {
    if (plain || !this.keys || !(sealed ?? this.#seals)) {
      if (sealed && !this.keys) throw new SealError('sealing takes keys: make the client with them');
      return undefined;
    }
    const key = await this.agentKey(to);
    if (sealed && !key) throw new SealError(`${to} has no key to seal for`);
    return key;
  }

  async #post(
    draft: Record<string, unknown> & { id: string; kind: string },
    content: Content,
    encKey?: string,
  ): Promise<Sent> {
    const { body, refs, files } = content;
    const { keys } = this;
    const isSealing = encKey !== undefined && keys !== undefined;
    const what = isSealing
      ? seal({ id: draft.id, kind: draft.kind, body, refs: refs ?? [], ...(files && { files }) }, encKey, keys)
      : { body, ...(refs && { refs }), ...(files && { files: { zip: Buffer.from(files).toString('base64') } }) };
    const full = { v: 1, ...draft, ...what };
    const envelope = keys ? signedEnvelope(full, keys, this.clock.now()) : full;
    const sent = await this.call<Sent>('POST', '/messages', envelope, { retry: true, timeoutMs: 60_000 });
    return { ...sent, sealed: isSealing };
  }

  #ends({ from = this.ownAgent(), to }: Pick<Outgoing, 'from' | 'to'>): { from: string; to: string } {
    const seat = seatOf(from);
    return { from, to: seat ? fullAddress(to, seat) : to };
  }

  /** The letter, or why it does not open. */
  #open(raw: DeliveredEnvelope): ReturnType<typeof open> | string {
    if (!this.keys) return 'It is sealed, and this client was made without keys.';
    try {
      return open(raw, this.keys);
    } catch (fault) {
      if (fault instanceof SealError) return fault.message;
      throw fault;
    }
  }

  /** The own org goes by its domain too: that of the gateway that was configured here, whatever the gateway says. */
  #isSameOrg({ to }: DeliveredEnvelope, signed: string, shown: string): boolean {
    return (this.#ownNames.includes(signed) && seatOf(to)?.org === shown) || this.#sameOrg(signed, shown);
  }

  #asked(request: Received | DeliveredEnvelope): { envelope: DeliveredEnvelope; replyKey: string | undefined } {
    if ('envelope' in request && 'raw' in request) return request as Received & { replyKey: string | undefined };
    const envelope = request as DeliveredEnvelope;
    const letter = isSealed(envelope) ? this.#open(envelope) : undefined;
    const replyKey = typeof letter === 'object' ? letter.reply_key : this.#replyKeys.get(envelope);
    return { envelope, replyKey };
  }
}

function answering(request: DeliveredEnvelope): { from: string; reply_to: string; thread: string } {
  return { from: withoutSession(request.to), reply_to: request.id, thread: request.thread };
}

/** Whom a request that is handed on came through, its sender the last. */
export function hopsOf(because: Outgoing['because']): readonly string[] {
  if (because === undefined) return [];
  if (!('envelope' in because) && !('from' in because)) return because;
  const { hops, from } = 'raw' in because ? (because as Received).envelope : (because as DeliveredEnvelope);
  return [...(Array.isArray(hops) ? (hops as string[]) : []), withoutSession(from)];
}
