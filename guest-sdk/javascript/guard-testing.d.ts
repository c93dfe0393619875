import type { Effects, Hooks, ModelText, Verdict } from './guard.js';

/** A hook that has made no valid decision. The gateway refuses with `guard_failed`. */
export declare class GuardFailed extends Error {}

/** Members of a call besides its tool and its arguments. By default, a caller without a key makes it. */
export interface More {
  effects?: Partial<Effects>;
  origin?: string;
  key?: string;
  tenant?: string;
}

/** Members of a request to a model besides its texts. */
export interface ModelMore {
  model?: string;
  key?: string;
  tenant?: string;
}

/**
 * A gateway in memory with one guard: what its `guard.js` exports as `hooks`. A hook that the guard does not have allows everything. A
 * verdict that a gateway would refuse with `guard_failed` is a `GuardFailed`.
 */
export declare class Gateway {
  /** Fails if the guard refuses the settings. */
  constructor(hooks: Hooks, more?: { settings?: Record<string, unknown> });
  /** Names of the hooks that the guard has, as the contract has them: `before-model`. */
  readonly hooks: string[];
  /** Decides about a call of a tool, whose client is the part of the name before the first `-`. A rewrite must be idempotent. */
  before(tool: string, args?: object, more?: More): Verdict;
  /** Decides about the result of a call; with `isFailure`, about the tool's own error. */
  after(tool: string, args: object, result: object, more?: More & { isFailure?: boolean }): Verdict;
  /** Decides about a definition of a client. */
  definition(client: string, definition: { name: string; [member: string]: unknown }, more?: { trusted?: boolean }): Verdict;
  /** Decides about a request to a model. */
  beforeModel(texts: ModelText[], more?: ModelMore): Verdict;
  /** Decides about the response of a model. */
  afterModel(texts: ModelText[], more?: ModelMore): Verdict;
}
