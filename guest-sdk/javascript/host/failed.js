/** Returns what a function of the host throws: an error with the failure of the contract as its `payload`. */
export const failed = (payload) => Object.assign(new Error(payload.message ?? payload.tag), { payload });
