/** What the options do, in Chinese; the schema says it in English. */

export const HELP = {};
