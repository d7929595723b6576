import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';

const VERSION = 1;
const NONCE = 12;
const TAG = 16;

/**
 * Secrets at rest under GATEHOUSE_SECRET: AES-256-GCM, one version byte, 12 bytes nonce, 16 bytes tag, ciphertext.
 * `purpose` says what the value is and whose (`agent-seed:<agent id>`); it is authenticated, so a value moved to another row does not open.
 */
export class Sealer {
  readonly #key: Buffer;
  readonly #macKey: Buffer;

  /** `secret` is GATEHOUSE_SECRET, 32 bytes. */
  constructor(secret: Uint8Array) {
    if (secret.length !== 32) throw new TypeError(`GATEHOUSE_SECRET has 32 bytes, not ${secret.length}`);
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'gatehouse-seal-v1', 32));
    this.#macKey = Buffer.from(hkdfSync('sha256', secret, '', 'gatehouse-mac-v1', 32));
  }

  seal(plain: Uint8Array, purpose: string): Buffer {
    const nonce = randomBytes(NONCE);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(associated(purpose));
    const text = Buffer.concat([cipher.update(plain), cipher.final()]);
    return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), text]);
  }

  /** HMAC-SHA256 under a key of its own: what only this instance can have made. `text` begins with what it is for. */
  mac(text: string): Buffer {
    return createHmac('sha256', this.#macKey).update(text).digest();
  }

  /** Throws when it does not open: another secret, another purpose or a damaged value is a fault of ours, not of a caller. */
  open(sealed: Uint8Array, purpose: string): Buffer {
    const bytes = Buffer.from(sealed);
    if (bytes[0] !== VERSION || bytes.length < 1 + NONCE + TAG) {
      throw new Error(`the sealed value for ${purpose} is of a format this version does not know`);
    }
    const nonce = bytes.subarray(1, 1 + NONCE);
    const tag = bytes.subarray(1 + NONCE, 1 + NONCE + TAG);
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: TAG });
    decipher.setAAD(associated(purpose)).setAuthTag(tag);
    try {
      return Buffer.concat([decipher.update(bytes.subarray(1 + NONCE + TAG)), decipher.final()]);
    } catch {
      throw new Error(
        `the sealed value for ${purpose} does not open: GATEHOUSE_SECRET changed, or the value was moved or damaged`,
      );
    }
  }
}

function associated(purpose: string): Buffer {
  return Buffer.from(`gatehouse-seal-v${VERSION}|${purpose}`, 'utf8');
}
