"""The connectors of the lake's formats."""

import pyspark
import pytest

from replview.spark.lake.formats import FORMATS, connector_settings
from replview.spark.sessions import SparkProblem, hadoop_version


@pytest.mark.parametrize("name", FORMATS)
def test_the_connector_for_this_spark_comes_from_maven(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    settings = connector_settings(FORMATS[name], "/srv/lake", None)
    assert settings["spark.jars.packages"] == FORMATS[name].package.format("4.1")
    own = connector_settings(FORMATS[name], "/srv/lake", "a:b:1")
    assert own["spark.jars.packages"] == "a:b:1"
    stored = connector_settings(FORMATS[name], "s3a://bucket/lake", "a:b:1")
    store = f"org.apache.hadoop:hadoop-aws:{hadoop_version()}"
    assert stored["spark.jars.packages"] == f"a:b:1,{store}"
    # Spark may have the connector already.
    assert "spark.jars.packages" not in connector_settings(FORMATS[name], "/srv/lake", "none")


@pytest.mark.parametrize("name", FORMATS)
def test_where_there_is_no_connector_its_coordinates_are_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(SparkProblem) as raised:
        connector_settings(FORMATS[name], "/srv/lake", None)
    assert "Spark 4.3" in raised.value.cause
    assert FORMATS[name].package.format("4.1") in raised.value.remedy
