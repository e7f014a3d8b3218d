/** The data of the demo. The films are real, the ratings are invented. */

/** A row of the table films. */
export interface Film {
  readonly id: number;
  readonly title: string;
  readonly year: number;
  readonly directorId: number;
}

/** A row of the table people. */
export interface Person {
  readonly id: number;
  readonly name: string;
}

/** How many ratings each film has at first. */
export const FIRST_VOTES = 20;

/** Title, year, director, and the sum of the first ratings. */
const DATA: readonly (readonly [string, number, string, number])[] = [
  ["Seven Samurai", 1954, "Akira Kurosawa", 183],
  ["Metropolis", 1927, "Fritz Lang", 171],
  ["Casablanca", 1942, "Michael Curtiz", 176],
  ["Psycho", 1960, "Alfred Hitchcock", 169],
  ["Vertigo", 1958, "Alfred Hitchcock", 178],
  ["Alien", 1979, "Ridley Scott", 174],
  ["Blade Runner", 1982, "Ridley Scott", 177],
  ["Ran", 1985, "Akira Kurosawa", 180],
  ["Playtime", 1967, "Jacques Tati", 165],
  ["Stalker", 1979, "Andrei Tarkovsky", 173],
  ["The Third Man", 1949, "Carol Reed", 172],
  ["M", 1931, "Fritz Lang", 175],
  ["Cléo from 5 to 7", 1962, "Agnès Varda", 168],
  ["Spirited Away", 2001, "Hayao Miyazaki", 179],
  ["In the Mood for Love", 2000, "Wong Kar-wai", 170],
  ["City Lights", 1931, "Charlie Chaplin", 167],
];

const directors = [...new Set(DATA.map(([, , director]) => director))];

export const PEOPLE: readonly Person[] = directors.map((name, index) => ({ id: index + 1, name }));
export const FILMS: readonly Film[] = DATA.map(([title, year, director], index) => {
  return { id: index + 1, title, year, directorId: directors.indexOf(director) + 1 };
});
/** The sums of the first ratings, by film. */
export const FIRST_STARS: readonly (readonly [id: number, sum: number])[] = DATA.map(([, , , sum], index) => [
  index + 1,
  sum,
]);
/** Which films each visitor has watched. */
export const WATCHED: Readonly<Record<string, readonly number[]>> = { alice: [7, 14, 5], bob: [9, 4] };
