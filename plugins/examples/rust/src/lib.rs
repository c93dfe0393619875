//! Tells the weather of a few cities.

use airlock_guest::{Context, Error, data, log, plugin, tool};

/// Invented data, so that the plugin works without network access.
const WEATHER: [(&str, f64, Sky); 4] = [
    ("cairo", 34.0, Sky::Clear),
    ("lima", 19.0, Sky::Clouds),
    ("oslo", 4.0, Sky::Snow),
    ("rome", 22.0, Sky::Clear),
];

/// The weather of a city.
#[data]
#[derive(Debug, PartialEq)]
pub struct Weather {
    /// Name of the city.
    city: String,
    /// Temperature of the air.
    celsius: f64,
    /// State of the sky.
    sky: Sky,
}

/// State of the sky.
#[data]
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sky {
    Clear,
    Clouds,
    Rain,
    Snow,
}

/// Tells the weather of a city, as it is right now.
#[tool(title = "Weather", read_only, idempotent, open_world = false)]
pub fn get_weather(
    /// Name of the city in English, Oslo for one.
    #[schemars(example = &"Oslo")]
    city: String,
    context: &Context,
) -> Result<Weather, Error> {
    log::info!(known = WEATHER.len(), "weather asked for");
    context.progress(0.0, Some(1.0), Some("looking it up"));
    let name = city.trim().to_lowercase();
    let Some((city, celsius, sky)) = WEATHER.into_iter().find(|(known, ..)| *known == name) else {
        let known = WEATHER.map(|(city, ..)| city).join(", ");
        return Err(Error::not_found(format!("no weather of {city}; known are {known}"))
            .with_code("unknown_city"));
    };
    context.progress(1.0, Some(1.0), Some("found"));
    Ok(Weather { city: city.to_owned(), celsius, sky })
}

plugin!(get_weather);

#[cfg(test)]
mod tests {
    use airlock_guest::{serde_json::json, testing::Host};

    use super::*;

    #[test]
    fn a_known_city_has_weather_and_an_unknown_one_an_error() {
        let host = Host::new();
        let output = host.call::<get_weather>(json!({ "city": "Oslo" })).expect("it is known");
        assert_eq!(
            output.structured_content,
            Some(json!({ "city": "oslo", "celsius": 4.0, "sky": "snow" }))
        );
        assert_eq!(host.progress().len(), 2);
        let error = host.call::<get_weather>(json!({ "city": "Olso" })).expect_err("unknown");
        assert_eq!(error.code(), Some("unknown_city"));
    }
}
