'use strict';
/** Calls of a gateway that wait for the approval of a person. */

/** Returns calls that wait, as the native module describes them. */
function pendingFrom({ calls, ...pending }) {
  return { ...pending, calls: calls.map(callFrom) };
}

/** Members without contents are left out. */
function callFrom({ argument_sources: argumentSources, asked_by: askedBy, ...call }) {
  return { ...call, ...(argumentSources && { argumentSources }), ...(askedBy && { askedBy }) };
}

module.exports = { pendingFrom };
