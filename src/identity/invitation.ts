import { containsNul, readJson } from '../lib/json.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { pythonJson } from './canonical.ts';
import { didKeyOf, isSignedBy, seconds, timeOf } from './introduction.ts';
import type { KeyPair } from './keys.ts';
import { withRawNumbers } from './raw-numbers.ts';

/** An invite card (muretai-wire-facts §11): a link that makes its finder and its issuer trust each other, once. */
export interface Invitation {
  did: string;
  name: string;
  /** Where the issuer is called; '' when only its relay is. */
  url: string;
  nonce: string;
  relay: string | null;
  /** Milliseconds. */
  expiresAt: number;
}

export interface NewInvitation extends Invitation {
  specialty: string;
  purpose?: string;
  encPub?: string;
  bio?: string;
  tags?: readonly string[];
}

const maxCard = 16 * 1024;

/** The card, signed over muretai's canonical JSON of all but `sig`. What is empty is left out, never null. */
export function signInvitation(invitation: NewInvitation, pair: KeyPair): Record<string, unknown> {
  const { name, url, nonce, expiresAt, specialty, purpose, relay, encPub, bio, tags } = invitation;
  const card = {
    v: 1,
    did: pair.did,
    name,
    url: url.replace(/\/$/, ''),
    specialty,
    nonce,
    exp: seconds(expiresAt),
    ...(purpose && { purpose }),
    ...(relay && { relay }),
    ...(encPub && { enc_pub: encPub }),
    ...(bio && { bio }),
    ...(tags && tags.length > 0 && { tags }),
  };
  const bytes = pythonJson(card);
  if (bytes instanceof Refusal) throw new TypeError(`an invitation without a canonical form: ${bytes.words}`);
  return { ...card, sig: pair.sign(Buffer.from(bytes)).toString('base64') };
}

/** Verifies a card as JSON text. Refused as `introduction_invalid`, the words say why. */
export function readInvitation(text: string, now: number): Invitation | Refusal {
  if (Buffer.byteLength(text) > maxCard) return bad(`it is larger than ${maxCard} bytes`);
  const json = readJson(text);
  if (json instanceof Refusal || containsNul(json.value)) return bad('it is no JSON object that can be read');
  const { sig, ...card } = withRawNumbers(text) as Record<string, unknown>;
  const signer = didKeyOf(card.did);
  if (!signer) return bad('its did is no Ed25519 did:key');
  if (!isSignedBy(card.did, card, sig)) return bad('its signature does not verify');
  const { name, url, nonce, exp, relay } = card;
  const expiresAt = timeOf(exp);
  if (typeof nonce !== 'string' || nonce === '' || nonce.length > 128 || expiresAt === undefined)
    return bad('it has no nonce or no end');
  if (expiresAt <= now) return bad('it has expired');
  return {
    did: signer.did,
    name: typeof name === 'string' ? name.slice(0, 200) : '',
    url: typeof url === 'string' ? url : '',
    nonce,
    relay: typeof relay === 'string' ? relay : null,
    expiresAt,
  };
}

function bad(why: string): Refusal {
  return refuse('introduction_invalid', `The invitation does not hold: ${why}.`);
}
