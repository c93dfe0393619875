import { running } from './running.js';

export const exists = (name) => running().secretExists(name);
