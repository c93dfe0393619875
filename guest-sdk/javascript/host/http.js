import { running } from './running.js';

export const send = (request) => running().httpSend(request);
