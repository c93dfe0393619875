import { Answer, Failure, log, object, plugin, text } from './airlock.js';

/** Made up, so that the plugin works without asking to be let out. */
const WEATHER = {
  cairo: { celsius: 34, sky: 'clear' },
  lima: { celsius: 19, sky: 'clouds' },
  oslo: { celsius: 4, sky: 'snow' },
  rome: { celsius: 22, sky: 'clear' },
};

export const tools = plugin({
  get_weather: {
    title: 'Weather',
    description: 'Tells the weather of a city, as it is right now.',
    input: object({ city: { type: 'string', description: 'Name of the city in English, Oslo for one.', examples: ['Oslo'] } }),
    output: object({
      city: { type: 'string', description: 'Name of the city.' },
      celsius: { type: 'number', description: 'Temperature of the air.' },
      sky: { enum: ['clear', 'clouds', 'rain', 'snow'], description: 'What the sky looks like.' },
    }),
    annotations: { readOnly: true, idempotent: true, openWorld: false },

    run({ city }, call) {
      const cities = Object.keys(WEATHER);
      log.info('weather asked for', { known: cities.length });
      call.progress(0, 1, 'looking it up');
      const name = city.trim().toLowerCase();
      if (!Object.hasOwn(WEATHER, name)) {
        throw new Failure('not-found', `no weather of ${city}; known are ${cities.join(', ')}`, { code: 'unknown_city' });
      }
      const weather = { city: name, ...WEATHER[name] };
      call.progress(1, 1, 'found');
      return new Answer({ structured: weather, content: [text(`${weather.celsius} °C and ${weather.sky} in ${name}`)] });
    },
  },
});
