import { running } from './running.js';

export const get = (key) => running().configGet(key);
export const getAll = () => running().configGetAll();
