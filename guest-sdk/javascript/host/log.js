import { storage } from './running.js';

// Modules that log while they are loaded have no host yet.
export const write = (level, message, fields) => storage.getStore()?.write(level, message, fields);
