import { generateSeed, type KeyPair, keyPair } from '../identity/keys.ts';
import { EncryptionKey, proveEncryptionKey } from '../identity/redsyn-cipher.ts';
import { redsynFingerprint } from '../identity/redsyn-seal.ts';
import { createPrivate, readPrivate, replacePrivate } from './private-files.ts';

/** 32 bytes each, base64url. */
export interface KeySecrets {
  signing: string;
  encryption: string;
  /** Encryption keys from before a rotation: what was sealed for them still opens. */
  previous?: string[];
}

/** A node's own keys. They are made on the machine and never leave it; the gateway learns the public halves. */
export interface NodeKeys {
  readonly signing: KeyPair;
  readonly encryption: EncryptionKey;
  readonly previous: readonly EncryptionKey[];
  /** Of the signing key: what people compare. */
  readonly fingerprint: string;
  /** The body of `PUT /nodes/key`. */
  registration(): { public_key: string; enc_key: string; enc_sig: string };
  /** For keeping them. Secret. */
  secrets(): KeySecrets;
}

/** New keys, or those that `secrets()` gave. */
export function nodeKeys(secrets?: KeySecrets): NodeKeys {
  const seed = secrets ? Buffer.from(secrets.signing, 'base64url') : generateSeed();
  const signing = keyPair(seed);
  const encryption = new EncryptionKey(secrets && Buffer.from(secrets.encryption, 'base64url'));
  const previous = (secrets?.previous ?? []).map((key) => new EncryptionKey(Buffer.from(key, 'base64url')));
  return {
    signing,
    encryption,
    previous,
    fingerprint: redsynFingerprint(signing.publicKey.raw),
    registration: () => ({
      public_key: signing.publicKey.raw.toString('base64url'),
      enc_key: encryption.publicKey,
      enc_sig: proveEncryptionKey(encryption.publicKey, signing),
    }),
    secrets: () => ({
      signing: seed.toString('base64url'),
      encryption: text(encryption),
      ...(previous.length > 0 && { previous: previous.map(text) }),
    }),
  };
}

const keptAfterRotation = 5;

/** New keys that still open what was sealed for the old ones. */
export function rotatedKeys(old: NodeKeys): NodeKeys {
  const { signing, encryption } = nodeKeys().secrets();
  const previous = [old.encryption, ...old.previous].slice(0, keptAfterRotation).map(text);
  return nodeKeys({ signing, encryption, previous });
}

/** The keys that a file keeps (mode 0600), made on first use. Two processes that come first at once get the same ones. */
export async function fileKeys(path: string): Promise<NodeKeys> {
  const kept = await readPrivate(path);
  if (kept !== undefined) return nodeKeys(JSON.parse(kept) as KeySecrets);
  const made = nodeKeys();
  return (await createPrivate(path, toText(made))) ? made : fileKeys(path);
}

export function saveKeys(path: string, keys: NodeKeys): Promise<void> {
  return replacePrivate(path, toText(keys));
}

function toText(keys: NodeKeys): string {
  return `${JSON.stringify(keys.secrets(), null, 2)}\n`;
}

function text(key: EncryptionKey): string {
  return key.privateKey().toString('base64url');
}
