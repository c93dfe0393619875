import { running } from './running.js';

export const open = (name) => running().kvOpen(name);
