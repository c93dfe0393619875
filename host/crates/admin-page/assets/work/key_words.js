// The names of keys. They are apart from the other words, because the list of approvals needs no more.

/** Returns the name of a key in what the API calls a party, such as `key "ann"`. */
export function keyWords(party) {
  return /^key "(.*)"$/.exec(party ?? 'no key')?.[1] ?? party ?? 'no key';
}
