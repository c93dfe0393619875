//! A component that was not written for Airlock: it has its own interface, and the gateway derives
//! the tools from it.

use bindings::{
    Guest,
    exports::weather::station::api::{Guest as Api, GuestSensor, Reading, Scale, Trouble},
};

#[allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated from wit/station.wit"
)]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "station" });

    // Native linkers do not accept such names.
    #[cfg(target_family = "wasm")]
    export!(Station with_types_in self);

    #[cfg(target_family = "wasm")]
    use super::Station;
}

/// The component.
pub struct Station;

impl Guest for Station {
    fn greet(name: String) -> String {
        format!("hello, {name}")
    }
}

impl Api for Station {
    type Sensor = Sensor;

    fn get_reading(city: String, scale: Option<Scale>) -> Result<Reading, Trouble> {
        let celsius = match city.as_str() {
            "Oslo" => -3.5,
            "Nowhere" => return Err(Trouble::Asleep),
            _ => return Err(Trouble::NoSuchCity(format!("there is no station in {city}"))),
        };
        let scale = scale.unwrap_or(Scale::Celsius);
        let degrees = if scale == Scale::Kelvin { celsius + 273.15 } else { celsius };
        Ok(Reading { city, degrees, scale, wind_speed: None })
    }

    fn checksum(data: Vec<u8>) -> u64 {
        data.into_iter().map(u64::from).sum()
    }

    fn count() -> u32 {
        1
    }
}

/// A resource of the interface.
pub struct Sensor;

impl GuestSensor for Sensor {
    fn new() -> Self {
        Self
    }

    fn read(&self) -> f64 {
        0.0
    }
}
