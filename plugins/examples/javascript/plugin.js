import { Output, ToolError, log, plugin, s, tool } from './airlock-plugin/index.js';

/** Invented data, so that the plugin works without network access. */
const WEATHER = {
  cairo: { celsius: 34, sky: 'clear' },
  lima: { celsius: 19, sky: 'clouds' },
  oslo: { celsius: 4, sky: 'snow' },
  rome: { celsius: 22, sky: 'clear' },
};

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

  run({ city }, context) {
    const cities = Object.keys(WEATHER);
    log.info('weather asked for', { known: cities.length });
    context.progress(0, 1, 'looking it up');
    const name = city.trim().toLowerCase();
    if (!Object.hasOwn(WEATHER, name)) {
      throw new ToolError('not-found', `no weather of ${city}; known are ${cities.join(', ')}`, { code: 'unknown_city' });
    }
    const weather = { city: name, ...WEATHER[name] };
    context.progress(1, 1, 'found');
    return new Output({ structuredContent: weather, content: [`${weather.celsius} °C and ${weather.sky} in ${name}`] });
  },
});

export const tools = plugin(getWeather);
