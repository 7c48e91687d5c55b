// How the search ranks pages: what is written to be read from first to last stands before what is looked up, and that
// before records of the project. Sphinx gives each result a score by where the words stand; this adds to it.

const RANKS = [
  [/^guide\//, 20],
  [/^debugging$/, 16],
  [/^(gallery\/|board$|distributed$)/, 8],
  [/^(decisions\/|decisions$|changelog$|results$|contributing$|internals$|names$|programs$)/, -20],
];

var Scorer = {
  score: ([page, , , , score]) =>
    score + (RANKS.find(([pattern]) => pattern.test(page)) ?? [null, 0])[1],
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
