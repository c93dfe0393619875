/** True for a member that may be left out; `'default'` if it has a value then. */
type Left = false | true | 'default';

/** A schema of values of a type. It does not change: every method returns another one. */
export declare class Schema<T, L extends Left = false> {
  private constructor();
  private readonly type: T;
  private readonly left: L;
  /** Returns the JSON Schema; `JSON.stringify` calls it. */
  toJSON(): Record<string, unknown>;
  /** Converts a JSON value. Fails with `invalid-input` if it does not fit. */
  parse(value: unknown): T;
  /** Describes the value to a model. */
  describe(description: string): Schema<T, L>;
  /** Adds examples. */
  examples(...examples: T[]): Schema<T, L>;
  /** Adds keywords of JSON Schema, which the host checks. */
  with(json: Record<string, unknown>): Schema<T, L>;
  /** Lets the member be left out. */
  optional(): Schema<T, true>;
  /** Lets the member be left out, and gives it a value then. */
  default(value: T): Schema<T, 'default'>;
  /** Lets the value be null. */
  nullable(): Schema<T | null, L>;
  /** Sets the least number, or the fewest characters or items. */
  min(min: number): Schema<T, L>;
  /** Sets the greatest number, or the most characters or items. */
  max(max: number): Schema<T, L>;
  /** Sets the regular expression that a string must match somewhere. */
  pattern(pattern: RegExp | string): Schema<T, L>;
}

/** The type of the values of a schema: `type Args = Infer<typeof schema>`. */
export type Infer<S> = S extends Schema<infer T, any> ? T : never;

type Members = Record<string, Schema<any, any>>;
type OptionalNames<M extends Members> = { [N in keyof M]: M[N] extends Schema<any, true> ? N : never }[keyof M];
type ObjectOf<M extends Members> = { [N in Exclude<keyof M, OptionalNames<M>>]: Infer<M[N]> } & {
  [N in OptionalNames<M>]?: Infer<M[N]>;
};
type Scalar = string | number | boolean | null;

/** Builders of schemas. */
export declare const s: {
  string(): Schema<string>;
  number(): Schema<number>;
  integer(): Schema<number>;
  boolean(): Schema<boolean>;
  null(): Schema<null>;
  any(): Schema<any>;
  /** One of some values. */
  enum<const V extends readonly Scalar[]>(values: V): Schema<V[number]>;
  /** A list. */
  array<T>(item: Schema<T, any>): Schema<T[]>;
  /** An object with these members and no others. */
  object<M extends Members>(members: M): Schema<{ [N in keyof ObjectOf<M>]: ObjectOf<M>[N] }>;
  /** An object with any members of one schema. */
  record<T>(item: Schema<T, any>): Schema<Record<string, T>>;
  /** The first of some schemas that fits. */
  union<S extends Schema<any, any>[]>(...schemas: S): Schema<Infer<S[number]>>;
  /** Any JSON Schema, which the host alone checks. */
  json<T = any>(json: Record<string, unknown>): Schema<T>;
};
