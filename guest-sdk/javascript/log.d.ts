type Line = (message: string, fields?: Record<string, unknown>) => void;

/**
 * The operator's log: `log.info('table read', { rows: 3 })`. Arguments and results of tools do not belong there. In a component,
 * `console` writes here too.
 */
export declare const log: {
  /** Every step. */
  trace: Line;
  /** Details for finding a fault. */
  debug: Line;
  /** Normal events. */
  info: Line;
  /** A problem that the plugin has handled. */
  warn: Line;
  /** A failure. */
  error: Line;
};
