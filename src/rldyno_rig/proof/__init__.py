"""The ladder a contestant climbs before any of its times is published."""
