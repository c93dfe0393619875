'use strict';
/** The native module of this platform. */

const target = `${process.platform}-${process.arch}`;

function load() {
  try {
    return require(`../native/airlock.${target}.node`);
  } catch (error) {
    const problem = error?.code === 'MODULE_NOT_FOUND' ? 'has no native module for' : 'cannot load its native module for';
    throw new Error(`airlock-gateway ${problem} ${target}: ${error?.message}`, { cause: error });
  }
}

module.exports = load();
