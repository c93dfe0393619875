import { type Context, Output, ToolError, log, plugin, s, tool } from './airlock-plugin/index.js';

type Weather = { celsius: number; sky: 'clear' | 'clouds' | 'rain' | 'snow' };

/** Invented data, so that the plugin works without network access. */
const WEATHER = new Map<string, Weather>([
  ['cairo', { celsius: 34, sky: 'clear' }],
  ['lima', { celsius: 19, sky: 'clouds' }],
  ['oslo', { celsius: 4, sky: 'snow' }],
  ['rome', { celsius: 22, sky: 'clear' }],
]);

const getWeather = tool({
  name: 'get_weather',
  title: 'Weather',
  description: 'Tells the weather of a city, as it is right now.',
  input: s.object({ city: s.string().describe('Name of the city in English, Oslo for one.').examples('Oslo') }),
  output: s.object({
    city: s.string().describe('Name of the city.'),
    celsius: s.number().describe('Temperature of the air.'),
    sky: s.enum(['clear', 'clouds', 'rain', 'snow']).describe('State of the sky.'),
  }),
  annotations: { readOnly: true, idempotent: true, openWorld: false },

  run({ city }: { city: string }, context: Context) {
    log.info('weather asked for', { known: WEATHER.size });
    context.progress(0, 1, 'looking it up');
    const name = city.trim().toLowerCase();
    const weather = WEATHER.get(name);
    if (!weather) {
      const known = [...WEATHER.keys()].join(', ');
      throw new ToolError('not-found', `no weather of ${city}; known are ${known}`, { code: 'unknown_city' });
    }
    context.progress(1, 1, 'found');
    const { celsius, sky } = weather;
    return new Output({ structuredContent: { city: name, ...weather }, content: [`${celsius} °C and ${sky} in ${name}`] });
  },
});

export const tools = plugin(getWeather);
