import { running } from './running.js';

export const reveal = (name) => running().secretReveal(name);
