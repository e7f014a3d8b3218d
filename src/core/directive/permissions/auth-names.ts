/** Words that say that a directive or a setting restricts who may see something. */
const WORDS = new Set(
  `access acl abac admin admins allow allowed allows can cognito denied deny grant grants guard guarded guards iam jwt login oidc
  permission permissions permit permits permitted policies policy private privilege privileged privileges protect protected
  rbac restrict restricted restricts role roles scope scopes secure secured shield`.split(/\s+/),
);
/** Words that say so together with one that demands something, such as `isOwner`, `requireUser` or `membersOnly`. */
const SUBJECTS = new Set(
  "account claim claims group groups member members org organization owner owners session team teams tenant token user users".split(
    " ",
  ),
);
const DEMANDS = new Set("check ensure has in is must need needs only require required requires verify".split(" "));
/** `auth` in any place, but not `author` and `authority`: `authorize` and `authorization` count. */
const AUTH = /auth(?!or(?!i[sz]))/i;
/** AppSync's directives, of which two are about subscriptions. */
const AWS = /^aws_(?!publish|subscribe)/;
const SIGNED_IN = /(?:log(?:ged)?|sign(?:ed)?)_?in(?:[A-Z_]|required|$)/;

/** Returns whether the name of a directive, or of a setting in `extensions`, says that it restricts who may see something. */
export function isAuthName(name: string): boolean {
  if (AUTH.test(name) || AWS.test(name) || SIGNED_IN.test(name) || SIGNED_IN.test(name.toLowerCase())) return true;
  const words = wordsOf(name);
  if (words.some((word) => WORDS.has(word))) return true;
  return words.some((word) => SUBJECTS.has(word)) && words.some((word) => DEMANDS.has(word));
}

/** The words of a name in camel case or with underscores. `hasrole` is two: it begins with a demand. */
function wordsOf(name: string): string[] {
  return name
    .split(/[^A-Za-z]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/)
    .map((word) => word.toLowerCase())
    .flatMap((word) => {
      const demand = [...DEMANDS].find((one) => word.length > one.length && word.startsWith(one));
      const rest = demand === undefined ? "" : word.slice(demand.length);
      return WORDS.has(rest) || SUBJECTS.has(rest) ? [demand as string, rest] : [word];
    });
}
