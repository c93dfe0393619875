import { running } from './running.js';

export const list = (cursor, limit) => running().toolsList(cursor, limit);
export const describe = (name) => running().toolsDescribe(name);
export const call = (request) => running().toolsCall(request);
export const callBatch = (requests) => running().toolsCallBatch(requests);
