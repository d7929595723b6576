declare module '@digitalbazaar/http-digest-header' {
  export function createHeaderValue(options: {
    data: Uint8Array;
    algorithm?: 'sha256';
    useMultihash?: boolean;
  }): Promise<string>;
  export function verifyHeaderValue(options: {
    data: Uint8Array;
    headerValue: string;
  }): Promise<{ verified: boolean; error?: Error }>;
}
