import { HostError } from './errors.js';

/** A failure to read a secret. */
export declare class SecretError extends HostError<'no-such-secret' | 'denied' | 'unavailable' | 'other'> {}

/** Returns the value, as bytes. The host still redacts it in results, errors and logs. */
export declare function reveal(name: string): Uint8Array;
