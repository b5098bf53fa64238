//! The regions of clouds, and the places by which published matrices name them.

/// The place of a region of Amazon Web Services, Google Cloud or Microsoft Azure, as the names of matrices write it; any
/// other name as it is.
///
/// From the region lists that the three clouds publish, for the places that the shipped matrices have.
pub(super) fn place(name: &str) -> &str {
    match name {
        "us-east-1" | "us-east4" | "eastus" => "virginia",
        "us-east-2" | "us-east5" => "ohio",
        "us-west-1" | "us-west2" | "westus" => "california",
        "us-west-2" | "us-west1" => "oregon",
        "eu-west-1" | "northeurope" => "ireland",
        "eu-west-2" | "europe-west2" | "uksouth" => "london",
        "eu-central-1" | "europe-west3" | "germanywestcentral" => "frankfurt",
        "ap-northeast-1" | "asia-northeast1" | "japaneast" => "tokyo",
        "ap-northeast-2" | "asia-northeast3" | "koreacentral" => "seoul",
        "ap-southeast-1" | "asia-southeast1" | "southeastasia" => "singapore",
        "ap-southeast-2" | "australia-southeast1" | "australiaeast" => "sydney",
        "ap-south-1" | "asia-south1" | "westindia" => "mumbai",
        "sa-east-1" | "southamerica-east1" | "brazilsouth" => "saopaulo",
        other => other,
    }
}
