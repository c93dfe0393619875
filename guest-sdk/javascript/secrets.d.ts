/** Returns true if the operator has granted a secret of this name and it has a value. */
export declare function exists(name: string): boolean;
