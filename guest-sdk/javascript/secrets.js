/** Secrets that the plugin requests and the operator grants, without their values: the host adds a value to requests. */

import * as host from 'airlock:host/secrets@0.1.0';

/** Returns true if the operator has granted a secret of this name and it has a value. */
export const exists = (name) => host.exists(name);
