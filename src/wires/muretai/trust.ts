import { z } from 'zod';
import type { Agent } from '../../directory/types.ts';
import type { Knock, Trust } from '../../federation/trust/index.ts';
import type { SignedMessage } from '../../identity/muretai-message.ts';
import { containsNul, hasLoneSurrogate } from '../../lib/json.ts';
import { Refusal, refuse } from '../../lib/refusal.ts';

/** A call of who proved to be `did`, to the agent whose address it called. */
export interface TrustCaller {
  readonly agent: Agent;
  readonly did: string;
  readonly message: SignedMessage;
  readonly params: Readonly<Record<string, unknown>>;
}

type Method = (trust: Trust, caller: TrustCaller) => Promise<object | Refusal>;

const url = z
  .string()
  .max(1024)
  .refine((text) => /^https?:\/\//i.test(text) && URL.canParse(text))
  .nullish();
const reach = z.object({
  name: z.string().max(200).nullish(),
  note: z.string().max(2_000).nullish(),
  url,
  relay: url,
  enc_pub: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullish(),
});
const claimParams = reach.extend({ nonce: z.string().min(1).max(128) });
const respondParams = reach.extend({ accept: z.boolean() });
const statusParams = z.object({ subject: z.string().min(1).max(512).nullish() });
const referralParams = z.object({ topic: z.string().max(1_000).nullish() });
const asksFor = 'introduce-me-to:';

/** muretai's methods beside `message/send` (muretai.md "Métodos JSON-RPC 2.0", muretai-wire-facts §11, §12); who calls was proved before. */
export const trustMethods: Readonly<Record<string, Method>> = {
  async 'referral/request'(trust, { agent, did, message, params }) {
    const read = paramsOf(referralParams, params);
    if (read instanceof Refusal) return read;
    const topic = read.topic ?? (message.text === 'referral/request' ? '' : message.text);
    const request = message.text.startsWith(asksFor) ? requestOf(message) : undefined;
    const found = await trust.referrals.find(agent, did, { topic, ...(request && { request }) });
    const { credential, url: at, relay, encPub } = found;
    if (credential === null) return { vc: null };
    return {
      vc: JSON.parse(credential) as object,
      ...(at !== null && { url: at }),
      ...(relay !== null && { relay }),
      ...(encPub !== null && { enc_pub: encPub }),
    };
  },

  async 'onboard/claim'(trust, { agent, did, message, params }) {
    if (message.text !== 'onboard/claim') return unmeant('onboard/claim');
    const read = paramsOf(claimParams, params);
    if (read instanceof Refusal) return read;
    return trust.invites.claim(agent, did, { ...knockOf(read), nonce: read.nonce });
  },

  async 'trust/status'(trust, { agent, did, params }) {
    const read = paramsOf(statusParams, params);
    return read instanceof Refusal ? read : trust.status(agent, did, read.subject ?? did);
  },

  async 'connect/request'(trust, { agent, did, params }) {
    const read = paramsOf(reach, params);
    return read instanceof Refusal ? read : trust.connect.request(agent, did, knockOf(read));
  },

  async 'connect/respond'(trust, { agent, did, message, params }) {
    const read = paramsOf(respondParams, params);
    if (read instanceof Refusal) return read;
    // What was signed for something else must not be shown as an acceptance.
    if (read.accept && message.text !== 'connect/respond') return refuse('no_pending_request');
    return trust.connect.respond(agent, did, { ...knockOf(read), accept: read.accept });
  },
};

function paramsOf<T>(schema: z.ZodType<T>, params: Readonly<Record<string, unknown>>): T | Refusal {
  const { message: _, ...rest } = params;
  if (containsNul(rest) || hasLoneSurrogate(rest)) return refuse('invalid_field', 'a text cannot be kept');
  const read = schema.safeParse(rest);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const field = issue?.path.join('.') ?? '';
  return refuse('invalid_field', `params.${field}: ${issue?.message}`, { data: { field } });
}

function knockOf({ name, note, url: at, relay, enc_pub: encPub }: z.infer<typeof reach>): Knock {
  return { name: name ?? '', note: note ?? '', url: at ?? null, relay: relay ?? null, encPub: encPub ?? null };
}

/** What the subject signed, for the introduction that it asked for; a time that is no whole number would not be spelt the same in it. */
function requestOf({
  from,
  to,
  sig,
  messageId,
  contextId,
  text,
  timestamp,
}: SignedMessage): Record<string, unknown> | undefined {
  if (timestamp === null || !/^\d{1,15}$/.test(timestamp)) return undefined;
  return { contextId, from, messageId, text, timestamp: Number(timestamp), to, sig };
}

function unmeant(method: string): Refusal {
  return refuse('invalid_field', `the text of params.message must be ${method}`, { data: { field: 'message' } });
}
