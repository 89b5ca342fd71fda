package org.apache.iceberg.rest;

/** The kit's tests of tables with the names that it tries only where a catalog says that it has them. */
public class AllNamesTests extends RESTCompatibilityKitCatalogTests {
  @Override
  protected boolean supportsNestedNamespaces() {
    return true;
  }

  @Override
  protected boolean supportsNamesWithSlashes() {
    return true;
  }
}
