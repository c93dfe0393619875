// All walks, in the order in which they run. They are defined at once: the test runner ends when it has nothing left to do.
import './walks/checks.mjs';
import './walks/pages.mjs';
import './walks/hostile.mjs';
import './walks/keyboard.mjs';
import './walks/decisions.mjs';
import './walks/servers.mjs';
import './walks/runs.mjs';
import './walks/session.mjs';
// The last one, because it fills the lists of the gateway.
import './walks/many.mjs';
