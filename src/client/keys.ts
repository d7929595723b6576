import { generateSeed, type KeyPair, keyPair } from '../identity/keys.ts';
import { EncryptionKey, proveEncryptionKey } from '../identity/redsyn-cipher.ts';

/** A node's own keys. They are made on the machine and never leave it; the gateway learns the public halves. */
export interface NodeKeys {
  readonly signing: KeyPair;
  readonly encryption: EncryptionKey;
  /** The body of `PUT /nodes/key`. */
  registration(): { public_key: string; enc_key: string; enc_sig: string };
  /** For keeping them: 32 bytes each, base64url. Secret. */
  secrets(): { signing: string; encryption: string };
}

/** New keys, or those that `secrets()` gave. */
export function nodeKeys(secrets?: { signing: string; encryption: string }): NodeKeys {
  const seed = secrets ? Buffer.from(secrets.signing, 'base64url') : generateSeed();
  const signing = keyPair(seed);
  const encryption = new EncryptionKey(secrets && Buffer.from(secrets.encryption, 'base64url'));
  return {
    signing,
    encryption,
    registration: () => ({
      public_key: signing.publicKey.raw.toString('base64url'),
      enc_key: encryption.publicKey,
      enc_sig: proveEncryptionKey(encryption.publicKey, signing),
    }),
    secrets: () => ({
      signing: seed.toString('base64url'),
      encryption: encryption.privateKey().toString('base64url'),
    }),
  };
}
